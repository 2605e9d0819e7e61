import { z } from "zod";
import { LONGEST_TIMER_MS } from "../async/signals.ts";
import { ConfigError, McpConnectionError } from "../errors.ts";
import { type OAuthParams, oauthParams } from "./oauth/params.ts";
import { replaceVariables } from "./variable_text.ts";

/** The MCP protocol's era: the newest both sides speak, the handshake one, or the stateless one. */
export type McpProtocol = "auto" | "legacy" | "2026-07-28";

/** An MCP server that is started as a process. `${VAR}` is filled in when it is started. */
export interface StdioServerParams {
  /** The program. */
  command: string;
  /** Its arguments. */
  args?: string[] | undefined;
  /**
   * Its environment, beside `HOME`, `LOGNAME`, `PATH`, `SHELL`, `TERM`, `USER` and the variables that
   * name certificates: `NODE_EXTRA_CA_CERTS`, `SSL_CERT_DIR` and `SSL_CERT_FILE`.
   */
  env?: Record<string, string> | undefined;
  /**
   * Its working directory, relative to the workspace. One that executed code can write to lets that
   * code choose what programs such as `npx` run.
   *
   * @default an empty folder
   */
  cwd?: string | undefined;
  /**
   * Whether it runs in an OS sandbox of its own, or the path of the sandbox's settings, relative to the
   * workspace. It can read the system's programs, its own installation and what its arguments name,
   * and write an empty folder; it has no network. The settings add to that.
   *
   * @default {false}
   */
  sandbox?: boolean | string | undefined;
  /**
   * How long it may take to start, in milliseconds, whenever it is started.
   *
   * @default that of whoever starts it: 60 seconds
   */
  connectTimeoutMs?: number | undefined;
  /**
   * The protocol's era.
   *
   * @default {"legacy"}
   */
  protocol?: McpProtocol | undefined;
}

/** An MCP server that is reached by HTTP. `${VAR}` is filled in when it is connected to. */
export interface HttpServerParams {
  /** Its address. */
  url: string;
  /** Headers of each request. */
  headers?: Record<string, string> | undefined;
  /** The transport; told from the address by default, else both are tried. */
  type?: "streamable_http" | "http" | "sse" | undefined;
  /**
   * How long it may take to answer, in milliseconds, whenever it is connected to.
   *
   * @default that of whoever connects to it: 60 seconds
   */
  connectTimeoutMs?: number | undefined;
  /**
   * The protocol's era.
   *
   * @default {"auto"}
   */
  protocol?: McpProtocol | undefined;
  /**
   * How to log in, where the server asks for it; `false` for not at all. A server with an
   * `Authorization` header among its headers is never logged in to.
   *
   * @default what the server tells
   */
  oauth?: OAuthParams | false | undefined;
}

/** How an MCP server is started or reached. */
export type ServerParams = StdioServerParams | HttpServerParams;

const protocol = z.enum(["auto", "legacy", "2026-07-28"]).optional();
const connectTimeoutMs = z.number().positive().max(LONGEST_TIMER_MS).optional();

/** What other programs keep in the same files. It means nothing here, and is dropped. */
const foreign = {
  alwaysAllow: z.unknown().optional(),
  autoApprove: z.unknown().optional(),
  description: z.unknown().optional(),
  dev: z.unknown().optional(),
  disabled: z.unknown().optional(),
  disabledTools: z.unknown().optional(),
  gallery: z.unknown().optional(),
  name: z.unknown().optional(),
  timeout: z.unknown().optional(),
  version: z.unknown().optional(),
} as const;

const stdioParams = z.strictObject({
  command: z.string().min(1),
  args: z.array(z.string()).optional(),
  env: z.record(z.string(), z.string()).optional(),
  cwd: z.string().min(1).optional(),
  sandbox: z.union([z.boolean(), z.string().min(1)]).optional(),
  connectTimeoutMs,
  protocol,
  type: z.literal("stdio").optional(),
  ...foreign,
});

const httpParams = z.strictObject({
  url: z.string().min(1),
  headers: z.record(z.string(), z.string()).optional(),
  type: z.enum(["streamable_http", "streamable-http", "streamableHttp", "http", "sse"]).optional(),
  connectTimeoutMs,
  protocol,
  oauth: z.union([oauthParams, z.literal(false)]).optional(),
  ...foreign,
});

/** Reads a server's parameters, as given by a program or in a `mcpServers` file. */
export function parseServerParams(serverName: string, given: unknown): ServerParams {
  const at = `Invalid parameters of MCP server "${serverName}"`;
  const value = withUsualUrl(given);
  const keys = typeof value === "object" && value !== null ? Object.keys(value) : [];
  if (keys.includes("command") === keys.includes("url")) {
    throw new ConfigError(`${at}: give either "command" or "url"`);
  }
  if (keys.includes("command")) {
    const parsed = check(at, stdioParams, value);
    const { command, args, env, cwd, sandbox, connectTimeoutMs, protocol } = parsed;
    return defined({ command, args, env, cwd, sandbox, connectTimeoutMs, protocol });
  }
  const parsed = check(at, httpParams, value);
  const { url, headers, type, connectTimeoutMs, protocol, oauth } = parsed;
  const transport = type === "streamable-http" || type === "streamableHttp"
    ? "streamable_http"
    : type;
  return defined({ url, headers, type: transport, connectTimeoutMs, protocol, oauth });
}

/** What Windsurf calls `serverUrl` is the `url`. */
function withUsualUrl(given: unknown): unknown {
  if (typeof given !== "object" || given === null || !("serverUrl" in given)) return given;
  const { serverUrl, ...others } = given;
  return "url" in others ? given : { ...others, url: serverUrl };
}

/** Looks up a variable for `${VAR}`. */
export type VariableLookup = (name: string) => string | undefined;

/** Stands for the workspace's path, by the name that editors use for it. */
export const WORKSPACE_VARIABLE = "workspaceFolder";

const VARIABLE = /^([A-Za-z0-9_]+)(?::-([^]*))?$/;

/** Fills `${VAR}` and `${VAR:-default}` in all values of a server's parameters. */
export function fillVariables<T extends ServerParams>(
  serverName: string,
  params: T,
  lookup: VariableLookup,
): T {
  const unset = new Set<string>();
  const fill = (text: string): string =>
    replaceVariables(text, (body) => {
      const [, name, fallback] = VARIABLE.exec(body) ?? [];
      if (name === undefined) return undefined;
      const value = lookup(name) ?? fallback;
      if (value === undefined) unset.add(name);
      return value ?? "";
    });
  const filled = mapStrings(params, fill);
  if (unset.size > 0) {
    const names = [...unset].map((name) => `\${${name}}`).join(", ");
    const are = unset.size === 1 ? "which is not set: set it" : "which are not set: set them";
    throw new UnsetVariablesError(
      `MCP server "${serverName}" needs ${names}, ${are} in the environment or in the workspace's .env`,
    );
  }
  return filled;
}

/** Variables are not set. Its message has their names, and nothing that was filled in. */
export class UnsetVariablesError extends ConfigError {}

/** A server took too long to start. Its message quotes nothing of the server's parameters. */
export class SlowStartError extends McpConnectionError {}

/** Whether an error of a server's start may quote what was filled into the server's parameters. */
export function mayQuoteSecrets(params: ServerParams, error: Error): boolean {
  if (error instanceof UnsetVariablesError || error instanceof SlowStartError) return false;
  // What comes of a start names no variables of its environment, except where programs are searched.
  const { PATH } = "command" in params ? params.env ?? {} : {};
  const quotable = error instanceof McpConnectionError ? { ...params, env: { PATH } } : params;
  let found = false;
  mapStrings<unknown>(quotable, (text) =>
    replaceVariables(text, (body) => {
      found ||= VARIABLE.test(body) && body !== WORKSPACE_VARIABLE;
      return undefined;
    }));
  return found;
}

function check<T>(at: string, schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(({ path, message }) =>
    path.length === 0 ? message : `${path.join(".")}: ${message}`
  );
  throw new ConfigError(`${at}: ${problems.join("; ")}`, { cause: parsed.error });
}

/** Leaves out what is `undefined`, so that equal parameters are written alike. */
function defined<T extends object>(value: T): T {
  for (const [key, inner] of Object.entries(value)) {
    if (inner === undefined) Reflect.deleteProperty(value, key);
  }
  return value;
}

function mapStrings<T>(value: T, map: (text: string) => string): T;
function mapStrings(value: unknown, map: (text: string) => string): unknown {
  if (typeof value === "string") return map(value);
  if (Array.isArray(value)) return value.map((inner) => mapStrings(inner, map));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([key, inner]) => [key, mapStrings(inner, map)]);
  return Object.fromEntries(entries);
}
