import { refuseUnknownKeys } from "../base/known_keys.ts";
import { checkInner, keysOf, START } from "../executor/option_keys.ts";
import type { CodeExecutorOptions } from "../executor/options.ts";
import type { HttpToken } from "./http/bearer_tokens.ts";
import type { McpHttpServerOptions } from "./mcp_server.ts";
import type { McpServerOptions } from "./session.ts";

/** The executor's options that an MCP server sets itself. */
const SET = keysOf<Omit<CodeExecutorOptions, keyof McpServerOptions>>({
  approval: true,
  requireShellEscape: true,
  signal: true,
});

const SERVER = [
  ...START.filter((name) => !SET.includes(name)),
  ...keysOf<Omit<McpServerOptions, keyof CodeExecutorOptions>>({
    approve: true,
    approveShell: true,
    page: true,
    policy: true,
    structured: true,
    version: true,
  }),
];

const HTTP = [
  ...SERVER,
  ...keysOf<Omit<McpHttpServerOptions, keyof McpServerOptions>>({
    allowRegistrations: true,
    allowedHosts: true,
    hostname: true,
    maxSessions: true,
    pool: true,
    port: true,
    sessionIdleMs: true,
    shareWorkspace: true,
    tokens: true,
  }),
];

const TOKEN = keysOf<HttpToken>({ maxSessions: true, placement: true, token: true });

/** Throws if `McpServer.serveStdio()` does not know one of the options. */
export function checkStdio(options: McpServerOptions): void {
  refuseUnknownKeys(options, { known: SERVER, place: "the options of McpServer.serveStdio()" });
  checkInner(options);
}

/** Throws if `McpServer.serveHttp()` does not know one of the options. */
export function checkHttp(options: McpHttpServerOptions): void {
  refuseUnknownKeys(options, { known: HTTP, place: "the options of McpServer.serveHttp()" });
  checkInner(options);
  const { pool, tokens } = options;
  if (pool !== undefined) refuseUnknownKeys(pool, { known: ["size"], place: 'the option "pool"' });
  for (const each of tokens || []) {
    if (typeof each === "string") continue;
    refuseUnknownKeys(each, { known: TOKEN, place: 'an entry of the option "tokens"' });
  }
}
