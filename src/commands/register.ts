import { visible } from "../approval/call_text.ts";
import { isAbsolute, relative, resolve } from "node:path";
import {
  type GeneratedTool,
  generateMcpSources,
  type OwnGenerateOptions,
} from "../apigen/generate.ts";
import { ConfigError, McpConnectionError, McpLoginRequiredError } from "../base/errors.ts";
import { canonicalJson } from "../json/digest.ts";
import { toExact } from "../json/exact.ts";
import type { OAuthParams } from "../mcp/oauth/params.ts";
import { parseServerParams, type ServerParams } from "../mcp/params.ts";
import { reachText, type StartEvidence, startEvidence } from "../servers/start_evidence.ts";
import { parseServersFile } from "../servers/import_config.ts";
import { launchText } from "../servers/fingerprint.ts";
import { ServerRegistry } from "../servers/registry.ts";
import {
  agrees,
  type Command,
  type CommandIo,
  EXIT,
  type OptionSpec,
  type ParsedArgs,
  UsageError,
} from "./command.ts";
import { loginAt } from "./login.ts";
import { type ForeignPart, foreignText, partRows } from "./foreign_rows.ts";
import { widthOf } from "../base/terminal.ts";
import { printable, terminalSize } from "./terminal/columns.ts";
import { mcptoolsOf, readUserFile, requireServerName, WORKSPACE, workspaceOf } from "./shared.ts";
import { isInside } from "../process/trusted_path.ts";
import { shellWord } from "../base/shell_word.ts";
import { refuseUnfit } from "../sandbox/workspace.ts";

/** Settings for the login to a remote server that the server does not provide itself. */
const OAUTH_OPTIONS: Readonly<Record<string, OptionSpec>> = {
  "client-id": { value: "ID", help: "The id of a client registered with the authorization server" },
  "client-secret": { value: "'${VAR}'", help: "The client's secret" },
  issuer: {
    value: "URL",
    help: "The authorization server that may receive the secret",
  },
  "client-credentials": { help: "Log in as the client itself, without a user" },
};

const TYPES = ["streamable_http", "sse"] as const;

export const command: Command = {
  usage: "NAME [OPTIONS] -- COMMAND [ARGUMENTS]\nNAME --url URL [OPTIONS]\n--from FILE [OPTIONS]",
  positional: { max: 1 },
  rest: "the server's command goes",
  options: {
    url: { value: "URL", help: "The address of a remote server" },
    header: { value: "'NAME: VALUE'", help: "A header for a remote server", many: true },
    type: {
      value: "TYPE",
      choices: TYPES,
      help: "streamable_http or sse (default: inferred from the URL, or tried)",
    },
    env: { value: "NAME=VALUE", help: "A variable for a local server's environment", many: true },
    cwd: {
      value: "DIR",
      help: "The working directory of a local server (default: an empty folder)",
    },
    sandbox: { help: "Run a local server in its own sandbox" },
    "sandbox-config": {
      value: "FILE",
      help: "Like --sandbox, with settings such as allowed domains",
    },
    from: { value: "FILE", help: "Register the servers in another program's configuration file" },
    ...OAUTH_OPTIONS,
    yes: { help: "With --from: start and register the servers without asking" },
    force: { help: "Replace a different registration of that name without asking" },
    login: {
      help: "Log in even without a terminal: print the login page and wait for the browser",
    },
    "connect-timeout": {
      value: "SECONDS",
      help:
        "The time limit for each start of the server (default: 60; 180 for npx, uvx and the like)",
    },
    workspace: WORKSPACE,
  },
  notes: [
    "Writes the API to mcptools/NAME/ and the server to .ipybox/mcp.json. Write",
    "secrets as ${VAR}: they are filled in from the environment, or from the",
    "workspace's .env, when the server starts, and never stored.",
    "",
    "By default, code cannot read the files that a server writes to its working",
    "directory, and they are removed with the server. --cwd '${workspaceFolder}' puts",
    "them in the workspace, where code could leave files that the server loads. A",
    "relative DIR is relative to the workspace.",
    "",
    "If a remote server requires a login, the page's address is printed: open it in",
    "a browser on this machine. The login is stored outside the workspace.",
    "",
    '--from takes files with {"mcpServers": {…}}, such as those of Claude, Cursor and',
    'Windsurf, and {"servers": {…}}, as VS Code has them. ${env:VAR} becomes ${VAR}.',
    "It shows how each server starts and asks before starting it. Without a terminal,",
    "check the file yourself and add --yes. For servers that you wrote into the",
    "workspace's .ipybox/mcp.json by hand, name that file.",
    "",
    "Examples:",
    "",
    "  ipybox register files -- npx -y @modelcontextprotocol/server-filesystem '${workspaceFolder}/data'",
    "  ipybox register github --url https://api.githubcopilot.com/mcp/ \\",
    "      --header 'Authorization: Bearer ${GITHUB_TOKEN}'",
    "  ipybox register --from ~/.cursor/mcp.json",
    "  ipybox register --from .vscode/mcp.json",
  ].join("\n"),
  run,
};

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const workspace = await workspaceOf(parsed);
  await refuseUnfit(workspace); // a server that is registered there could not be used
  // First, because a registry that cannot be read could not be extended.
  const registry = await ServerRegistry.open({ workspace });
  const { servers, unusable } = await serversOf(parsed, workspace, io);
  const login = io.interactive || parsed.has("login") ? loginAt(io) : undefined;
  for (const error of unusable) io.err(`ipybox: ${printable(error.message)}`);
  let failed = unusable.length;
  for (const [name, params] of servers) {
    try {
      await registerOne(name, await decided(name, params));
    } catch (error) {
      // One server of a file must not prevent the others.
      const expected = error instanceof McpConnectionError || error instanceof ConfigError;
      if (!parsed.value("from") || !expected || io.signal.aborted) throw error;
      io.err(`ipybox: ${printable(error.message)}`);
      failed++;
    }
  }
  const all = servers.size + unusable.length;
  if (all > 1) io.err(`${all - failed} of ${all} servers registered`);
  return failed === 0 ? EXIT.ok : EXIT.failed;

  /** The parameters to register, if the person agrees: the name may be in use by another server. */
  async function decided(name: string, params: ServerParams): Promise<ServerParams> {
    const present = registry.get(name);
    const wanted = parseServerParams(name, timed(params));
    const isSame = present !== undefined && startAlike(present, wanted);
    if (isSame && registry.isOwn(name, present)) return wanted;
    const isFromFile = parsed.value("from") !== undefined;
    const shown = isFromFile && io.interactive && !parsed.has("yes")
      ? partRows(
        launchParts(
          [name, wanted],
          await startEvidence(name, wanted, { workspace, log: io.log }),
          workspace,
        ),
        terminalSize().columns,
      )
      : [];
    // If no person reads it, nothing that may be secret is printed.
    if (shown.length > 0) io.err(shown.join("\n"));
    else if (isFromFile) io.err(`${name}: ${printable(launchText(wanted))}`);
    if (present !== undefined && !isSame && !parsed.has("force")) {
      const is = `${name} is registered as ${printable(launchText(present))}`;
      if (!io.interactive) throw new ConfigError(`${is}: add --force to replace it`);
      const becomes = `It would be replaced by ${printable(launchText(wanted))}`;
      if (await agrees(io, `${is}\n${becomes}\nReplace it?`)) return wanted;
      throw new ConfigError(`${name} was not replaced`);
    }
    if (!isFromFile || parsed.has("yes")) return wanted;
    const not = `${name} was not started`;
    if (!io.interactive) {
      throw new ConfigError(`${not}: there is no terminal to ask on. If you trust it, add --yes`);
    }
    if (await agrees(io, `Start and register ${name} (${shown.length} rows above)?`)) return wanted;
    throw new ConfigError(not);
  }

  function timed(params: ServerParams): ServerParams {
    const connectTimeoutMs = parsed.milliseconds("connect-timeout");
    return connectTimeoutMs === undefined ? params : { ...params, connectTimeoutMs };
  }

  async function registerOne(name: string, params: ServerParams): Promise<void> {
    let reach: string | undefined;
    const evidence = () => startEvidence(name, params, { workspace, isOwn: true, log: io.log });
    const { settings } = await evidence();
    const options: OwnGenerateOptions = {
      settings,
      rootDir: mcptoolsOf(workspace),
      workspace,
      login,
      signal: io.signal,
      log: io.log,
      beforeWrite: async () => {
        const run = { ...await evidence(), settings }; // it may have written files
        reach = reachText(name, run, workspace);
        return await registry.register(name, params, run);
      },
    };
    const tools = await generateMcpSources(name, params, options).catch((error: unknown) => {
      if (!(error instanceof McpLoginRequiredError)) throw error;
      const again = parsed.values("header").length > 0
        ? "the same command" // its headers may be secrets
        : ["ipybox", "register", "--login", ...parsed.all].map(shellWord).join(" ");
      throw new McpLoginRequiredError(name, error.what, again);
    });
    report(name, tools, io);
    if (reach !== undefined) io.err(printable(reach));
    if (namesWorkspace(params, workspace)) {
      io.err(
        `${name} has the whole workspace as an argument: its tools may read and change your settings ` +
          "and secrets there (.ipybox/, .env). Give it a subfolder, such as '${workspaceFolder}/data'",
      );
    } else if (namesOwnFolder(params)) {
      io.err(
        `${name} starts in an empty folder, which is removed with it, and what its tools write to "." is ` +
          "lost. Give it a folder of the workspace, such as '${workspaceFolder}/data'",
      );
    }
  }
}

/** How a server of a file is started, for the person to check. */
export function launchParts(
  [name, params]: readonly [string, ServerParams],
  shown: StartEvidence,
  workspace: string,
): ForeignPart[] {
  const reach = reachText(name, shown, workspace);
  const [written, filled] = [launchText(params), launchText(shown.params)];
  return [
    { heading: name, lines: JSON.stringify(shown, null, 2).split("\n") },
    {
      heading: `${name} starts or connects to, outside the code's sandbox`,
      lines: [filled, ...(reach === undefined ? [] : [reach])],
    },
    ...(written === filled ? [] : [{
      heading: "As written; the workspace's path or its .env fills in the variables at each start",
      lines: [written],
    }]),
  ];
}

/** Whether a local server without a sandbox has the workspace, or a folder around it, as an argument. */
function namesWorkspace(params: ServerParams, workspace: string): boolean {
  if (!("command" in params) || (params.sandbox ?? false) !== false) return false;
  const filled = (text: string) => text.replaceAll("${workspaceFolder}", workspace);
  const cwd = params.cwd === undefined ? undefined : filled(params.cwd);
  return (params.args ?? []).some((arg) => {
    const path = filled(arg.replace(/^--?[\w-]+=/, ""));
    if (!isAbsolute(path) && (cwd === undefined || !/^\.{1,2}(\/|$)/.test(path))) return false;
    return isInside(workspace, resolve(workspace, cwd ?? "", path));
  });
}

/** Whether a local server is given the empty folder that it starts in. */
function namesOwnFolder(params: ServerParams): boolean {
  return "command" in params && params.cwd === undefined &&
    (params.args ?? []).some((arg) => /^(--?[\w-]+=)?\.\/?$/.test(arg));
}

/** Whether two registrations differ at most in the time limit of the start. */
function startAlike(one: ServerParams, other: ServerParams): boolean {
  const launch = ({ connectTimeoutMs: _, ...rest }: ServerParams) => canonicalJson(toExact(rest));
  return launch(one) === launch(other);
}

interface Named {
  readonly servers: ReadonlyMap<string, ServerParams>;
  readonly unusable: readonly ConfigError[];
}

/** The servers that the command line names, in one of its three forms. */
async function serversOf(
  parsed: ParsedArgs,
  workspace: string,
  io: CommandIo,
): Promise<Named> {
  const [name] = parsed.positional;
  const [command, ...args] = parsed.rest;
  const url = parsed.value("url");
  const file = parsed.value("from");
  if ([command, url, file].filter((form) => form !== undefined).length !== 1) {
    throw new UsageError(
      "Specify a server with -- COMMAND or --url URL, or servers with --from FILE",
    );
  }
  if (file !== undefined) {
    if (name !== undefined) throw new UsageError(`--from takes no NAME: received "${name}"`);
    const { servers, renamed, unusable } = parseServersFile(file, await readUserFile(file));
    for (const [name, given] of renamed) io.err(`"${visible(given)}" is named ${name} in Python`);
    return { servers, unusable: [...unusable.values()] };
  }
  if (name === undefined) throw new UsageError("Missing NAME: the server's name in Python");
  requireServerName(name);
  const params = url === undefined
    ? localServer(parsed, [command ?? "", ...args], workspace)
    : remoteServer(parsed, url);
  return { servers: new Map([[name, params]]), unusable: [] };
}

function localServer(
  parsed: ParsedArgs,
  [command = "", ...args]: readonly string[],
  workspace: string,
): ServerParams {
  refuse(parsed, "a local server", "header", "type", ...Object.keys(OAUTH_OPTIONS));
  const env = pairs(parsed.values("env"), "=", "--env takes NAME=VALUE");
  const cwd = parsed.value("cwd");
  const settings = parsed.value("sandbox-config");
  const sandbox = settings === undefined
    ? parsed.has("sandbox")
    : workspacePath(settings, workspace);
  return {
    command,
    ...(args.length === 0 ? {} : { args }),
    ...(Object.keys(env).length === 0 ? {} : { env }),
    cwd,
    ...(sandbox === false ? {} : { sandbox }),
  };
}

/** A path from the command line, relative to the workspace if it is in there. */
function workspacePath(file: string, workspace: string): string {
  if (file.startsWith("${")) return file; // filled in when the server starts
  const below = relative(workspace, resolve(file));
  return below.startsWith("..") || isAbsolute(below) ? resolve(file) : below;
}

function remoteServer(parsed: ParsedArgs, url: string): ServerParams {
  refuse(parsed, "a remote server", "env", "cwd", "sandbox", "sandbox-config");
  const headers = pairs(parsed.values("header"), ":", "--header takes 'NAME: VALUE'");
  return {
    url,
    ...(Object.keys(headers).length === 0 ? {} : { headers }),
    type: parsed.choice("type", TYPES),
    oauth: oauthOf(parsed),
  };
}

function refuse(parsed: ParsedArgs, kind: string, ...options: string[]): void {
  const wrong = options.find((option) => parsed.has(option));
  if (wrong !== undefined) throw new UsageError(`Option --${wrong} cannot be used with ${kind}`);
}

function pairs(items: readonly string[], separator: string, usage: string): Record<string, string> {
  return Object.fromEntries(items.map((item) => {
    const at = item.indexOf(separator);
    if (at < 1) throw new UsageError(`Option ${usage}: received "${item}"`);
    return [item.slice(0, at).trim(), item.slice(at + 1).trimStart()];
  }));
}

/** Reports the generated modules on stdout, and warnings on stderr. */
function report(server: string, tools: readonly GeneratedTool[], io: CommandIo): void {
  const generated = tools.filter(({ module }) => module !== null);
  io.out(`${server}: ${generated.length} tools in mcptools/${server}/\n`);
  const { columns } = terminalSize();
  const rowsOf = (text: string) => foreignText(text, columns).trimEnd();
  for (const { tool, module, warnings } of tools) {
    if (module === null) io.err(`  left out:\n${rowsOf(tool)}`);
    else io.out(`${moduleRows(module, tool, columns)}\n`);
    for (const warning of warnings) io.err(rowsOf(`${tool}: ${warning}`));
  }
}

/** A module, and the tool's own name if it differs. */
function moduleRows(module: string, tool: string, columns: number): string {
  if (module === tool) return `  ${module}`;
  const row = `  ${module}  (${visible(tool)})`;
  // A terminal continues long lines at the margin, where only ipybox's own text should be.
  return widthOf(row) <= columns ? row : `  ${module}\n${foreignText(tool, columns).trimEnd()}`;
}

/** The secret must be a variable: its value would be in the shell's history and in the registry. */
const VARIABLE = /^\$\{[A-Za-z0-9_]+\}$/;

function oauthOf(parsed: ParsedArgs): OAuthParams | undefined {
  const clientSecret = parsed.value("client-secret");
  if (clientSecret !== undefined && !VARIABLE.test(clientSecret)) {
    throw new UsageError(
      "Option --client-secret takes a variable, as in --client-secret '${SECRET}'",
    );
  }
  const given = {
    clientId: parsed.value("client-id"),
    clientSecret,
    issuer: parsed.value("issuer"),
    grant: parsed.has("client-credentials") ? "client_credentials" as const : undefined,
  };
  return Object.values(given).some((value) => value !== undefined) ? given : undefined;
}
