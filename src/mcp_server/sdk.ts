/**
 * The server half of the MCP TypeScript SDK: the one place that imports it.
 *
 * Its 2.x line serves both protocol eras from one code base and has real types in Deno; the 1.x line,
 * `@modelcontextprotocol/sdk`, is the legacy peer in the tests.
 *
 * @module
 */
export {
  acceptedContent,
  CLIENT_CAPABILITIES_META_KEY,
  createRequestStateCodec,
  inputRequired,
  McpServer as SdkMcpServer,
} from "@modelcontextprotocol/server";
export type {
  CallToolResult,
  ContentBlock,
  InputRequests,
  InputRequiredResult,
  RequestStateCodec,
  ServerContext,
  ServerOptions,
  Transport,
} from "@modelcontextprotocol/server";
export { serveStdio, StdioServerTransport } from "@modelcontextprotocol/server/stdio";
