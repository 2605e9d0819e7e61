import { resolve } from "node:path";
import { z } from "zod";
import { ConfigError, EnvironmentNotReadyError, McpConnectionError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { hostEnv } from "../base/permission.ts";
import { LONGEST_TIMER_MS } from "../base/signals.ts";
import { oneLine } from "../json/problems.ts";
import { trustedPath } from "../process/trusted_path.ts";
import { readDotenv } from "./env.ts";
import { type OAuthParams, oauthParams } from "./oauth/params.ts";

/** The MCP protocol's era: the newest both sides speak, the handshake one, or the stateless one. */
export type McpProtocol = "auto" | "legacy" | "2026-07-28";

/** An MCP server that is started as a process. `${VAR}` is filled in when it is started. */
export interface StdioServerParams {
  /** The program. */
  command: string;
  /** Its arguments. */
  args?: string[];
  /**
   * Its environment, in addition to `HOME`, `LOGNAME`, `PATH`, `SHELL`, `TERM`, `USER` and the variables that
   * name certificates: `NODE_EXTRA_CA_CERTS`, `SSL_CERT_DIR` and `SSL_CERT_FILE`.
   */
  env?: Record<string, string>;
  /**
   * Its working directory, relative to the workspace. One that executed code can write to lets that
   * code choose what programs such as `npx` run.
   *
   * @default an empty folder
   */
  cwd?: string;
  /**
   * Whether it runs in its own OS sandbox, or the path of the sandbox's settings, relative to the
   * workspace. It can read the system's programs, its own installation and what its arguments name,
   * and write an empty folder; it has no network. The settings add to that.
   *
   * @default {false}
   */
  sandbox?: boolean | string;
  /**
   * How long it may take to start, in milliseconds, whenever it is started.
   *
   * @default the starting program's: 60 seconds
   */
  connectTimeoutMs?: number;
  /**
   * The protocol's era.
   *
   * @default {"legacy"}
   */
  protocol?: McpProtocol;
}

/** An MCP server that is reached by HTTP. `${VAR}` is filled in when it is connected to. */
export interface HttpServerParams {
  /** Its address. */
  url: string;
  /** Headers of each request. */
  headers?: Record<string, string>;
  /** The transport; told from the address by default, else both are tried. */
  type?: "streamable_http" | "http" | "sse";
  /**
   * How long it may take to answer, in milliseconds, whenever it is connected to.
   *
   * @default the connecting program's: 60 seconds
   */
  connectTimeoutMs?: number;
  /**
   * The protocol's era.
   *
   * @default {"auto"}
   */
  protocol?: McpProtocol;
  /**
   * How to log in, if the server requires it; `false` to never log in. A server with an
   * `Authorization` header among its headers is never logged in to.
   *
   * @default what the server reports
   */
  oauth?: OAuthParams | false;
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
    throw new ConfigError(`${at}: specify either "command" or "url"`);
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
class UnsetVariablesError extends ConfigError {}

/** A server took too long to start. Its message quotes nothing of the server's parameters. */
export class SlowStartError extends McpConnectionError {}

/** Variables by which interpreters and the loader find code. */
export const CODE_VARIABLE: RegExp =
  /^(PYTHON(PATH|HOME|USERBASE)|NODE_(PATH|OPTIONS)|LD_.*|DYLD_.*|BASH_ENV|ENV|RUBY(LIB|OPT)|PERL5?(LIB|OPT)|CLASSPATH|JAVA_TOOL_OPTIONS|UV_(PROJECT|WORKING_DIRECTORY|CONFIG_FILE))$/;

/** Whether an error of a server's start may quote what was filled into the server's parameters. */
export function mayQuoteSecrets(params: ServerParams, error: Error): boolean {
  if (error instanceof UnsetVariablesError || error instanceof SlowStartError) return false;
  if (error instanceof EnvironmentNotReadyError) return false; // it is about this machine
  // Errors name no variables of the environment but those by which programs and code are found.
  const env = Object.entries("command" in params ? params.env ?? {} : {})
    .filter(([name]) => name === "PATH" || CODE_VARIABLE.test(name));
  const quotable = "command" in params ? { ...params, env: Object.fromEntries(env) } : params;
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
    oneLine(path.length === 0 ? message : `${path.join(".")}: ${message}`)
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

/** Python's keywords that match {@linkcode SERVER_NAME}: none of them can be imported. */
const PYTHON_KEYWORDS: readonly string[] = (
  "and as assert async await break class continue def del elif else except finally for from global " +
  "if import in is lambda nonlocal not or pass raise return try while with yield"
).split(" ");

/** The runtime's package lies beside the generated ones; `ipybox` is who asks for shell commands. */
const RESERVED: readonly string[] = ["ipybox", "ipybox_runtime"];

const MAX_LENGTH = 64;
const SERVER_NAME = /^[a-z_][a-z0-9_]*$/;

/**
 * Checks that a name can be a registered server's. It becomes a folder and a Python package, so it
 * must not be able to become anything else.
 */
export function checkServerName(name: string): void {
  const reason = whyInvalid(name);
  if (reason !== undefined) {
    const shown = JSON.stringify(name.length > 80 ? `${name.slice(0, 80)}…` : name);
    const valid = serverNameFrom(name);
    const such = valid === undefined ? "" : `; "${valid}" would do`;
    throw new TypeError(`Invalid MCP server name ${shown}: ${reason}${such}`);
  }
}

/** Whether a name can be a registered server's. */
export function isServerName(name: string): boolean {
  return whyInvalid(name) === undefined;
}

/** The name that a server can be registered by, where another program calls it as it likes. */
export function serverNameFrom(name: string): string | undefined {
  if (isServerName(name)) return name;
  const words = name.toLowerCase().split(/[^a-z0-9_]+/).filter((word) => word !== "");
  const joined = words.join("_").replace(/^(?=[0-9])/, "_").slice(0, MAX_LENGTH);
  return [joined, `${joined}_server`].find((candidate) =>
    /[a-z0-9]/.test(joined) && isServerName(candidate)
  );
}

function whyInvalid(name: string): string | undefined {
  if (!SERVER_NAME.test(name) || name.length > MAX_LENGTH) {
    return "use lower-case letters, digits and _, not a digit first, at most " +
      `${MAX_LENGTH} characters`;
  }
  if (PYTHON_KEYWORDS.includes(name)) return "it is a Python keyword";
  if (RESERVED.includes(name) || name.startsWith("__")) return "it is reserved";
  return undefined;
}

/** What every server started as a process gets of the host's environment. No secrets are in it. */
const INHERITED: readonly string[] = [
  "HOME",
  "LOGNAME",
  "PATH",
  "SHELL",
  "TERM",
  "USER",
  // Where the network's certificates are of a company's own, nothing is downloaded without these.
  "NODE_EXTRA_CA_CERTS",
  "SSL_CERT_DIR",
  "SSL_CERT_FILE",
];

/** Options of {@linkcode variableLookup}. */
interface VariableLookupOptions {
  /**
   * Whether the workspace's `.env` is read.
   *
   * @default {true}
   */
  readonly dotenv?: boolean;
  /** Called with a `.env` that is ignored. */
  readonly log?: Logger;
}

/**
 * Makes the lookup for `${VAR}`: the host's environment first, then the workspace's `.env`.
 *
 * The environment comes first because code in the sandbox may be able to write a `.env`, and must
 * not be able to send a server, with the host's secrets, to another place.
 */
export async function variableLookup(
  workspace?: string,
  options: VariableLookupOptions = {},
): Promise<VariableLookup> {
  const { dotenv: read = true, log } = options;
  const file = workspace === undefined || !read ? {} : await readDotenv(workspace, log);
  const dotenv = new Map(Object.entries(file));
  return (name) => {
    if (name === WORKSPACE_VARIABLE && workspace !== undefined) return resolve(workspace);
    return Deno.env.get(name) ?? dotenv.get(name);
  };
}

/** The part of the host's environment that servers inherit. */
export async function inheritedEnvironment(
  workspace: string = "",
): Promise<Record<string, string>> {
  const untrusted = workspace === "" ? [] : [resolve(workspace)];
  const environment: Record<string, string> = {};
  for (const name of INHERITED) {
    const value = hostEnv(name);
    if (value === undefined) continue;
    environment[name] = name === "PATH" ? await trustedPath(value, untrusted) : value;
  }
  return environment;
}

/** Gives what stands instead of a variable, or `undefined` where its text stays. */
type VariableText = (body: string) => string | undefined;

/**
 * Replaces what stands between `${` and the next `}` in a text. A pattern for the whole would take time
 * in proportion to the square of a hostile text.
 */
export function replaceVariables(text: string, replace: VariableText): string {
  let replaced = "";
  let done = 0;
  let close = -1;
  for (let open = text.indexOf("${"); open !== -1;) {
    if (close < open) close = text.indexOf("}", open); // searched once for all that open before it
    if (close === -1) break;
    const value = replace(text.slice(open + 2, close));
    if (value !== undefined) {
      replaced += text.slice(done, open) + value;
      done = close + 1;
    }
    open = text.indexOf("${", value === undefined ? open + 2 : done);
  }
  return replaced + text.slice(done);
}
