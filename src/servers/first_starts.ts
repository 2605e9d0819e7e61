import { isAbsolute, join, relative, resolve } from "node:path";
import type { ApprovalCall } from "../approval/request.ts";
import { ConfigError, ToolCallError } from "../base/errors.ts";
import { limitedLogger, type Logger } from "../base/log.ts";
import { Mutex } from "../base/mutex.ts";
import { mayRead } from "../base/permission.ts";
import type { Calls } from "../calls/calls.ts";
import { ifPresent } from "../files/safe.ts";
import { sha256 } from "../json/digest.ts";
import { sealObject, toExact } from "../json/exact.ts";
import { startFailure } from "../mcp/start_errors.ts";
import { settingsFileOf, wantedSandbox } from "../mcp/launch.ts";
import { namesCode } from "../mcp/own_arguments.ts";
import {
  fillVariables,
  type ServerParams,
  type VariableLookup,
  variableLookup,
  WORKSPACE_VARIABLE,
} from "../mcp/params.ts";
import { isInside, lstatIfAllowed } from "../process/trusted_path.ts";
import { launchText } from "./facets.ts";
import type { ServerRegistry } from "./registry.ts";

/** Options of {@linkcode FirstStarts}. */
interface FirstStartsOptions {
  /** Knows which servers the user registered. */
  readonly registry: ServerRegistry;
  /** The registry's workspace. */
  readonly workspace: string | undefined;
  /** Where `${VAR}` comes from, instead of the environment and the workspace's `.env`. */
  readonly variables: VariableLookup | undefined;
  /** Asks for approval of the others. */
  readonly approve: Calls["approve"];
  /** Receives the servers that were not started. */
  readonly log: Logger;
}

/** Admits the user's servers, and asks about others, which a repository or code may have added. */
export class FirstStarts {
  readonly #options: FirstStartsOptions;
  readonly #log: Logger;
  readonly #turns = new Mutex();

  constructor(options: FirstStartsOptions) {
    this.#options = options;
    this.#log = limitedLogger(options.log); // code can trigger these messages at will
  }

  /** Throws if a server may not be started. A yes is remembered until its evidence changes. */
  async admit(serverName: string, params: ServerParams, signal: AbortSignal): Promise<void> {
    const { registry, approve } = this.#options;
    if (registry.isOwn(serverName, params)) return;
    // Without a registry file, the approver may be the very client that wants the server started.
    if (registry.path === undefined) {
      throw new ToolCallError("unknown_server", `MCP server "${serverName}" is not registered`);
    }
    using _turn = await this.#turns.acquire(signal); // one question for all callers of the server
    const evidence = await this.#evidence(serverName, params);
    if (registry.isAccepted(serverName, evidence)) return;
    const call: ApprovalCall = {
      kind: "change",
      serverName: "ipybox",
      toolName: "start_mcp_server",
      arguments: sealObject(toExact({ server_name: serverName, ...shownOf(evidence) })),
      description: `Starts or connects to this, outside the code's sandbox: ` +
        `${launchText(evidence.params)}\n` +
        `The workspace's ${registry.path} names it, but you have not registered it: it may have ` +
        "come with these files, or code may have written it. Only variables from your own " +
        "environment are shown as ${VAR}.",
    };
    // Without the values of variables and headers, which may be secret.
    const launch = launchText(params);
    const noted = sealObject(toExact({ server_name: serverName, server: launch }));
    const check = () => "it can only be started as registered";
    try {
      await approve(call, { noted: { ...call, arguments: noted }, check, signal });
    } catch (error) {
      if (!(error instanceof ToolCallError) || error.type === "cancelled") throw error;
      this.#log.warn(`MCP server "${serverName}" was not started: ${launch}`);
      const { reason = error.message } = error.details;
      const message = `MCP server "${serverName}" was not started: ${reason}. It is in the ` +
        "workspace's registry, but the user has not registered it. They can review it with " +
        "`ipybox servers`, and register it with `ipybox register --from .ipybox/mcp.json`: " +
        "once more, if the workspace was moved";
      throw new ToolCallError(error.type, message, { reason }, { cause: error });
    }
    await registry.accept(serverName, evidence);
  }

  /** What the question is about. Throws for a server that cannot be started. */
  async #evidence(serverName: string, params: ServerParams): Promise<StartEvidence> {
    const { workspace, variables } = this.#options;
    try {
      return await startEvidence(serverName, params, { workspace, variables, log: this.#log });
    } catch (cause) {
      if (!(cause instanceof ConfigError)) throw cause;
      this.#log.warn(cause.message);
      const message = startFailure(serverName, params, cause);
      throw new ToolCallError("server_unreachable", message, {}, { cause });
    }
  }
}

function shownOf({ params, settings, files }: StartEvidence): Readonly<Record<string, unknown>> {
  return {
    server_params: params,
    ...(settings === undefined ? {} : { sandbox_settings: settings }),
    ...(Object.keys(files).length === 0 ? {} : { files }),
  };
}

/** What decides what is started or reached: the registration, and everything it refers to. */
interface StartEvidence {
  /** How it is started or reached. Only variables of the user's environment stay as `${VAR}`. */
  readonly params: ServerParams;
  /** The content of its sandbox's settings file. */
  readonly settings: string | undefined;
  /** Digests of the files and folders in the workspace that it names, by relative path. */
  readonly files: Readonly<Record<string, string>>;
}

/** Options of {@linkcode startEvidence}. */
type StartEvidenceOptions = Pick<FirstStartsOptions, "workspace" | "variables" | "log">;

/** More words, files or bytes than this are too much to ask about. */
const MAX_WORDS = 10_000;
const MAX_FILES = 5000;
const MAX_BYTES = 256 * 1024 * 1024;
const MAX_SETTINGS = 1024 * 1024;

/** What users accept with a registration that is not theirs: changes are asked about. */
export async function startEvidence(
  serverName: string,
  params: ServerParams,
  options: StartEvidenceOptions,
): Promise<StartEvidence> {
  const { workspace, variables, log } = options;
  const environment = variables ?? await variableLookup(workspace, { dotenv: false });
  const lookup = variables ?? await variableLookup(workspace, { log });
  const filled = fillVariables(serverName, params, lookup);
  const shown = fillVariables(serverName, params, (name) => {
    const isOwn = name !== WORKSPACE_VARIABLE && environment(name) !== undefined;
    return isOwn ? `\${${name}}` : lookup(name);
  });
  if (!("command" in filled) || workspace === undefined) {
    return { params: shown, settings: undefined, files: {} };
  }
  const base = await Deno.realPath(workspace);
  const settings = settingsFileOf(wantedSandbox(serverName, filled), base);
  const { command, args = [], env = {}, cwd = "." } = filled;
  const texts = [command, ...args, ...Object.values(env), cwd];
  const files = new NamedFiles(serverName, base);
  await files.add(texts, resolve(base, cwd));
  return {
    params: shown,
    settings: settings === undefined ? undefined : await settingsText(serverName, settings),
    files: Object.fromEntries(files.digests),
  };
}

async function settingsText(serverName: string, path: string): Promise<string | undefined> {
  const status = await ifPresent(Deno.stat(path));
  if (status === undefined) return undefined; // starting the server reports it
  if (status.isFile && status.size <= MAX_SETTINGS) return await Deno.readTextFile(path);
  throw new ConfigError(
    `Cannot start MCP server "${serverName}": its sandbox settings ${path} are not a file of up to 1 MiB`,
  );
}

/** Digests of the files in a workspace that a registration names and that may be code. */
class NamedFiles {
  readonly digests = new Map<string, string>();
  readonly #serverName: string;
  readonly #workspace: string;
  #files = 0;
  #bytes = 0;

  constructor(serverName: string, workspace: string) {
    this.#serverName = serverName;
    this.#workspace = workspace;
  }

  /** Adds the files that texts or words in them name, relative to the working directory or workspace. */
  async add(texts: readonly string[], cwd: string): Promise<void> {
    const words = new Set(texts.flatMap((text) => [text, ...text.split(/[\s:=;,'"`()]+/)]));
    if (words.size > MAX_WORDS) throw this.#tooMuch();
    for (const word of words) {
      if (word === "" || word.includes("\0") || word.length > 4000) continue;
      for (const from of isAbsolute(word) ? ["/"] : [cwd, this.#workspace]) {
        const path = resolve(from, word);
        const real = await realOrNone(path);
        if (real === undefined) continue;
        for (const each of [path, real]) await this.#addPath(each);
      }
    }
  }

  /** Adds a file that may be code: anything in `.ipybox`, elsewhere what has the name or mode of code. */
  async #addPath(path: string): Promise<void> {
    const hidden = join(this.#workspace, ".ipybox");
    if (isInside(path, hidden)) {
      // Files beside a program may be part of it.
      const [name] = relative(hidden, path).split("/");
      if (name === undefined || name === "") throw this.#tooMuch();
      return await this.#addRoot(join(hidden, name));
    }
    if (!isInside(path, this.#workspace)) return;
    const status = await lstatIfAllowed(path);
    if (status === undefined || status.isDirectory) return;
    if ((status.isFile && ((status.mode ?? 0) & 0o111) !== 0) || await namesCode(path)) {
      await this.#addRoot(path);
    }
  }

  async #addRoot(path: string): Promise<void> {
    const name = relative(this.#workspace, path);
    if (this.digests.has(name)) return;
    this.digests.set(name, ""); // links may lead back here
    this.digests.set(name, await this.#digestOf(path));
  }

  async #digestOf(path: string): Promise<string> {
    if (++this.#files > MAX_FILES) throw this.#tooMuch();
    const status = await Deno.lstat(path);
    if (status.isSymlink) {
      const real = await realOrNone(path);
      if (real !== undefined) await this.#addPath(real);
      return sha256(`link ${await Deno.readLink(path)}`);
    }
    if (status.isDirectory) {
      const names = await Array.fromAsync(Deno.readDir(path), ({ name }) => name);
      const parts: (readonly [string, string])[] = [];
      for (const name of names.sort()) parts.push([name, await this.#digestOf(join(path, name))]);
      return sha256(`folder ${JSON.stringify(parts)}`);
    }
    if (!status.isFile) return sha256("no file"); // such as a socket
    this.#bytes += status.size;
    if (this.#bytes > MAX_BYTES) throw this.#tooMuch();
    return sha256(await Deno.readFile(path));
  }

  #tooMuch(): ConfigError {
    return new ConfigError(
      `Cannot start MCP server "${this.#serverName}": it names too many files in .ipybox/ to ask about. ` +
        "If you trust it, register it with `ipybox register`, or put its program into its own folder " +
        "in .ipybox/",
    );
  }
}

async function realOrNone(path: string): Promise<string | undefined> {
  if (!mayRead(path)) return undefined;
  return await Deno.realPath(path).catch(() => undefined); // a missing file cannot run
}
