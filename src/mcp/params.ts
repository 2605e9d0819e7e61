import { resolve } from "node:path";
import { z } from "zod";
import { ConfigError, EnvironmentNotReadyError, McpConnectionError } from "../base/errors.ts";
import { LOCALE_VARIABLES, PROXY_VARIABLES } from "../base/host_variables.ts";
import type { Logger } from "../base/log.ts";
import { nearestNames } from "../base/nearest.ts";
import { hostEnv } from "../base/permission.ts";
import { LONGEST_TIMER_MS } from "../base/signals.ts";
import { isRecord } from "../json/exact.ts";
import { oneLine } from "../json/problems.ts";
import { defined } from "../json/plain.ts";
import { trustedPath } from "../process/trusted_path.ts";
import type { TrustSetting } from "../files/own_entries.ts";
import { readDotenv } from "./env.ts";
import { type OAuthParams, oauthParams } from "./oauth/params.ts";

/**
 * The MCP protocol to speak: the newest that both sides support, the handshake era, or the
 * stateless one.
 */
export type McpProtocol = "auto" | "legacy" | "2026-07-28";

/** An MCP server that runs as a local process. `${VAR}` is replaced when it is started. */
export interface StdioServerParams {
  /** The program. */
  command: string;
  /** Its arguments. */
  args?: string[];
  /**
   * Environment variables, in addition to `HOME`, `LOGNAME`, `PATH`, `SHELL`, `TERM`, `USER` and
   * those for proxies, certificates, the time zone and the language, which docs/servers.md lists.
   */
  env?: Record<string, string>;
  /**
   * Its working directory, relative to the workspace. If executed code can write to it, that code
   * can choose what programs such as `npx` run.
   *
   * @default an empty folder
   */
  cwd?: string;
  /**
   * Whether it runs in its own OS sandbox, or the path of the sandbox's settings, relative to the
   * workspace. In the sandbox, it can read the system's programs, its own installation and what its
   * arguments name, and write to an empty folder; it has no network. The settings extend this.
   *
   * @default {false}
   */
  sandbox?: boolean | string;
  /**
   * The time limit for starting it, in milliseconds.
   *
   * @default the limit of the program that starts it: 60 seconds, or 180 for `npx`, `uvx` and the like
   */
  connectTimeoutMs?: number;
  /**
   * The protocol to speak.
   *
   * @default {"legacy"}
   */
  protocol?: McpProtocol;
}

/** An MCP server that is reached over HTTP. `${VAR}` is replaced when connecting. */
export interface HttpServerParams {
  /** Its URL. */
  url: string;
  /** Headers for each request. */
  headers?: Record<string, string>;
  /** The transport; by default inferred from the URL, or else both are tried. */
  type?: "streamable_http" | "http" | "sse";
  /**
   * The time limit for connecting, in milliseconds.
   *
   * @default the limit of the program that connects: 60 seconds
   */
  connectTimeoutMs?: number;
  /**
   * The protocol to speak.
   *
   * @default {"auto"}
   */
  protocol?: McpProtocol;
  /**
   * How to log in, if the server requires it; `false` to never log in. There is no login if the
   * headers include `Authorization`.
   *
   * @default what the server announces
   */
  oauth?: OAuthParams | false;
}

/** How to start or reach an MCP server. */
export type ServerParams = StdioServerParams | HttpServerParams;

const protocol = z.enum(["auto", "legacy", "2026-07-28"]).optional();
const connectTimeoutMs = z.number().positive().max(LONGEST_TIMER_MS).optional();

/** Properties that other programs keep in the same files, which are ignored here. */
const FOREIGN: readonly string[] =
  "alwaysAllow autoApprove description dev disabled disabledTools gallery name timeout version"
    .split(" ");

const stdioParams = z.strictObject({
  command: z.string().min(1),
  args: z.array(z.string()).optional(),
  env: z.record(z.string(), z.string()).optional(),
  cwd: z.string().min(1).optional(),
  sandbox: z.union([z.boolean(), z.string().min(1)]).optional(),
  connectTimeoutMs,
  protocol,
  type: z.literal("stdio").optional(),
});

const httpParams = z.strictObject({
  url: z.string().min(1),
  headers: z.record(z.string(), z.string()).optional(),
  type: z.enum(["streamable_http", "streamable-http", "streamableHttp", "http", "sse"]).optional(),
  connectTimeoutMs,
  protocol,
  oauth: z.union([oauthParams, z.literal(false)]).optional(),
});

/** Validates a server's parameters from a program or an `mcpServers` file. */
export function parseServerParams(serverName: string, given: unknown): ServerParams {
  const at = `Invalid parameters of MCP server "${serverName}"`;
  if (!isRecord(given)) {
    throw new ConfigError(`${at}: they must be an object with "command" or "url"`);
  }
  const own = Object.entries(given).filter(([name]) => !FOREIGN.includes(name));
  const value = withUsualUrl(Object.fromEntries(own));
  const keys = Object.keys(value);
  if (keys.includes("command") === keys.includes("url")) {
    const others = keys.map((key) => oneLine(`"${key}"`)).join(", ").slice(0, 200);
    const found = keys.includes("url") ? ", not both" : others === "" ? "" : `, not ${others}`;
    throw new ConfigError(`${at}: specify either "command" or "url"${found}`);
  }
  if (keys.includes("command")) {
    const { type: _, ...params } = check(at, stdioParams, value);
    return defined(params);
  }
  const params = check(at, httpParams, value);
  const { type } = params;
  const transport = type === "streamable-http" || type === "streamableHttp"
    ? "streamable_http"
    : type;
  return defined({ ...params, type: transport });
}

/** Windsurf writes `serverUrl` instead of `url`. */
function withUsualUrl(given: Record<string, unknown>): Record<string, unknown> {
  if (!("serverUrl" in given)) return given;
  const { serverUrl, ...others } = given;
  return "url" in others ? given : { ...others, url: serverUrl };
}

/** Looks up a variable for `${VAR}`. */
export type VariableLookup = (name: string) => string | undefined;

/** The name that editors use for the workspace's path. */
export const WORKSPACE_VARIABLE = "workspaceFolder";

const VARIABLE = /^([A-Za-z0-9_]+)(?::-([^]*))?$/;

/** Replaces `${VAR}` and `${VAR:-default}` in all values of a server's parameters. */
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

/** Variables are not set. The message contains their names, and no values. */
class UnsetVariablesError extends ConfigError {}

/** A server took too long to start. The message quotes none of the server's parameters. */
export class SlowStartError extends McpConnectionError {}

/** Whether an error of a server's start may quote values of variables in its parameters. */
export function mayQuoteSecrets(params: ServerParams, error: Error): boolean {
  if (error instanceof UnsetVariablesError || error instanceof SlowStartError) return false;
  if (error instanceof EnvironmentNotReadyError) return false; // it concerns this machine only
  // Errors quote no environment variables except the search path.
  const { PATH = "" } = "command" in params ? params.env ?? {} : {};
  const quotable = "command" in params ? { ...params, env: { PATH } } : params;
  let found = false;
  mapStrings<unknown>(quotable, (text) =>
    replaceVariables(text, (body) => {
      found ||= VARIABLE.test(body) && body !== WORKSPACE_VARIABLE;
      return undefined;
    }));
  return found;
}

function check<T extends z.ZodRawShape>(
  at: string,
  schema: z.ZodObject<T, z.core.$strict>,
  value: unknown,
): z.infer<z.ZodObject<T, z.core.$strict>> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const known = Object.keys(schema.shape);
  const problems = parsed.error.issues.flatMap((issue) => {
    const { path, message } = issue;
    if (path.length > 0) return [oneLine(`${path.join(".")}: ${message}`)];
    return issue.code === "unrecognized_keys"
      ? issue.keys.slice(0, 20).map((key) => oneLine(unknownKey(key, known)))
      : [oneLine(message)];
  });
  throw new ConfigError(`${at}: ${problems.join("; ")}`, { cause: parsed.error });
}

function unknownKey(key: string, known: readonly string[]): string {
  const other = known.includes("command") ? httpParams : stdioParams;
  if (key in other.shape) {
    const [here, there] = known.includes("command") ? ["command", "url"] : ["url", "command"];
    return `"${key}" is for servers with "${there}", not with "${here}"`;
  }
  const [near] = nearestNames(key, known, 1);
  return `Unknown key "${key}"${near === undefined ? "" : `: did you mean "${near}"?`}`;
}

function mapStrings<T>(value: T, map: (text: string) => string): T;
function mapStrings(value: unknown, map: (text: string) => string): unknown {
  if (typeof value === "string") return map(value);
  if (Array.isArray(value)) return value.map((inner) => mapStrings(inner, map));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([key, inner]) => [key, mapStrings(inner, map)]);
  return Object.fromEntries(entries);
}

/** Python keywords that match {@linkcode SERVER_NAME}, which cannot be imported. */
const PYTHON_KEYWORDS: readonly string[] = (
  "and as assert async await break class continue def del elif else except finally for from global " +
  "if import in is lambda nonlocal not or pass raise return try while with yield"
).split(" ");

/** The runtime's package is beside the generated ones; `ipybox` is the server of shell commands. */
const RESERVED: readonly string[] = ["ipybox", "ipybox_runtime"];

const MAX_LENGTH = 64;
const SERVER_NAME = /^[a-z_][a-z0-9_]*$/;

/** Checks the name of a server, which becomes a folder and a Python package. */
export function checkServerName(name: string): void {
  const reason = whyInvalid(name);
  if (reason !== undefined) {
    const shown = JSON.stringify(name.length > 80 ? `${name.slice(0, 80)}…` : name);
    const valid = serverNameFrom(name);
    const such = valid === undefined ? "" : `; "${valid}" would do`;
    throw new TypeError(`Invalid MCP server name ${shown}: ${reason}${such}`);
  }
}

/** Whether a name is valid for a registered server. */
export function isServerName(name: string): boolean {
  return whyInvalid(name) === undefined;
}

/** Derives a valid server name from the name that another program uses. */
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

/**
 * The host's environment variables that every server process inherits: those that the user's own programs
 * need on this machine and in its network. The only secrets meant for them are those of a proxy.
 */
const INHERITED: readonly string[] = [
  ..."HOME LOGNAME PATH SHELL TERM USER".split(" "),
  ...PROXY_VARIABLES,
  ..."CURL_CA_BUNDLE DENO_CERT DENO_TLS_CA_STORE NODE_EXTRA_CA_CERTS".split(" "),
  ..."REQUESTS_CA_BUNDLE SSL_CERT_DIR SSL_CERT_FILE".split(" "),
  ...["TZ", "LANGUAGE", ...LOCALE_VARIABLES],
];

/** Options of {@linkcode variableLookup}. */
interface VariableLookupOptions {
  /** Whether to read the workspace's `.env`, as by default. */
  readonly dotenv?: boolean;
  /** Which of its variables count. */
  readonly trust?: TrustSetting | undefined;
  /** Receives a warning if a `.env` is ignored. */
  readonly log?: Logger;
}

/**
 * Creates the lookup for `${VAR}`: the host's environment first, then the workspace's `.env`.
 *
 * The environment takes precedence because sandboxed code may be able to write a `.env`, which must
 * not redirect a server and the host's secrets to another place.
 */
export async function variableLookup(
  workspace?: string,
  options: VariableLookupOptions = {},
): Promise<VariableLookup> {
  const { dotenv: read = true, log, trust } = options;
  const file = workspace === undefined || !read ? {} : await readDotenv(workspace, log, trust);
  const dotenv = new Map(Object.entries(file));
  return (name) => {
    if (name === WORKSPACE_VARIABLE && workspace !== undefined) return resolve(workspace);
    return Deno.env.get(name) ?? dotenv.get(name);
  };
}

/** Refuses a server whose program is named by a `.env`: a repository can change that at any time. */
export async function requireOwnCommand(
  serverName: string,
  params: ServerParams,
  { workspace, lookup }: {
    readonly workspace?: string | undefined;
    readonly lookup: VariableLookup;
  },
): Promise<void> {
  if (!("command" in params) || !params.command.includes("${")) return;
  const own = await variableLookup(workspace, { dotenv: false });
  replaceVariables(params.command, (body) => {
    const name = VARIABLE.exec(body)?.[1] ?? "";
    if (own(name) !== undefined || lookup(name) === undefined) return undefined;
    throw new ConfigError(
      `Cannot start MCP server "${serverName}": the workspace's .env must not name its program. Set ` +
        `\${${name}} in your environment, or register the server with its program`,
    );
  });
}

/** The host's environment variables that servers inherit. */
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

/** The replacement of a variable, or `undefined` to keep its text. */
type VariableText = (body: string) => string | undefined;

/** Replaces `${…}`. A regular expression would take quadratic time for a hostile text. */
export function replaceVariables(text: string, replace: VariableText): string {
  let replaced = "";
  let done = 0;
  let close = -1;
  for (let open = text.indexOf("${"); open !== -1;) {
    if (close < open) close = text.indexOf("}", open); // one search serves all that open before it
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
