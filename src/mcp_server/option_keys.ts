import { refuseUnknownKeys } from "../base/known_keys.ts";
import { checkInner, keysOf, START } from "../executor/option_keys.ts";
import type { CodeExecutorOptions } from "../executor/options.ts";
import type { HttpToken } from "./http/bearer_tokens.ts";
import type { HttpSessionsOptions } from "./http/sessions.ts";
import type { McpServerOptions } from "./session.ts";

/** Options of {@linkcode McpServer.serveHttp}. */
export interface McpHttpServerOptions
  extends Omit<McpServerOptions, "durable" | "trust">, HttpSessionsOptions {
  /**
   * The port.
   *
   * @default {0} any free port
   */
  port?: number;
  /**
   * The address to listen on. Clients that can reach it and have a token can execute code.
   *
   * @default {"127.0.0.1"}
   */
  hostname?: string;
  /**
   * The bearer tokens that clients may use, optionally with settings. Sessions belong to the token that
   * opened them. `false` admits everyone who can reach the port.
   *
   * @default {undefined} one generated token: see `McpHttpEndpoint.token`
   */
  tokens?: readonly (string | HttpToken)[] | false;
  /**
   * Host names that clients may use in addition to `hostname` and the loopback names.
   *
   * @default {[]}
   */
  allowedHosts?: readonly string[];
  /**
   * Whether clients may register and remove servers and install from Git repositories, as `approve`
   * says. A registered server runs on this machine with your access, outside the sandbox: a client that
   * answers for its user can then do everything you can.
   *
   * @default {false} clients are not offered these tools
   */
  allowRegistrations?: boolean;
}

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
    version: true,
  }),
];

const HTTP = [
  ...SERVER.filter((name) => name !== "trust"), // sessions have your registered servers
  ...keysOf<Omit<McpHttpServerOptions, keyof McpServerOptions>>({
    allowRegistrations: true,
    allowedHosts: true,
    hostname: true,
    maxSessions: true,
    pool: true,
    port: true,
    sessionIdleMs: true,
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
