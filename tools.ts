/**
 * Tool calls without ipybox's own kernel: MCP servers, the approval of calls to them, and a server
 * for kernels that make calls.
 *
 * @module
 */
export { ToolRunner } from "./src/calls/runner.ts";
export type { ToolRunnerOptions } from "./src/calls/runner.ts";
export type { CatalogCall } from "./src/calls/calls.ts";
export { ToolServer } from "./src/calls/tool_server.ts";
export type { Door, ToolServerOptions } from "./src/calls/tool_server.ts";
export type { TrustSetting } from "./src/files/own_entries.ts";
export type { ConnectOptions } from "./src/mcp/connect.ts";
export { ServerEvents } from "./src/servers/events.ts";
export { ServerRegistry } from "./src/servers/registry.ts";
export type { GivenServers, RunFiles, ServerRegistryOptions } from "./src/servers/registry.ts";
export type { CatalogMethod } from "./src/mcp/catalog.ts";
export type {
  CallToolOptions,
  ServerHooks,
  ServerLogMessage,
  ToolProgress,
} from "./src/mcp/hooks.ts";
export type { ToolResult } from "./src/mcp/results.ts";
