/**
 * What tests of the tool half share: servers to call, and Python to call them from.
 *
 * @module
 */
import { inheritedEnvironment, type StdioServerParams } from "../../src/mcp/params.ts";
import { bytesOf } from "../../src/base/streams.ts";
import { ManagedProcess } from "../../src/process/managed_process.ts";
import type { Door } from "../../src/calls/tool_server.ts";
import { programOf } from "../../src/process/program.ts";

const root = new URL("../../", import.meta.url).pathname;

/** The runtime's folder, for `PYTHONPATH`. */
export const runtimePath: string = `${root}templates/runtime`;

/** The MCP server without an SDK, in one of its modes. */
export function rawServer(mode = "normal", journal?: string): StdioServerParams {
  const args = ["run", "-A", "--no-config", "--no-lock", `${root}tests/fixtures/mcp/raw_server.ts`];
  return {
    command: Deno.execPath(),
    args: [...args, mode, ...(journal === undefined ? [] : [journal])],
  };
}

/** The same server, whose program is copied to a path. */
export async function copiedServer(program: string): Promise<StdioServerParams> {
  const { command, args = [] } = rawServer();
  const original = args.find((arg) => arg.endsWith(".ts")) ?? "";
  await Deno.copyFile(original, program);
  return { command, args: args.map((arg) => arg === original ? program : arg) };
}

/** A fixture on the SDK, which needs the project's import map. */
export function fixtureServer(file: string): StdioServerParams {
  const path = `${root}tests/fixtures/mcp/${file}`;
  const args = ["run", "-A", `--config=${root}deno.json`, path];
  return { command: Deno.execPath(), args, ...denoCache() };
}

/** A server published with the protocol, run by Deno so that nothing has to be installed. */
export function npmServer(name: string, ...args: string[]): StdioServerParams {
  return npmPackage(`@modelcontextprotocol/${name}@2026.8.31`, ...args);
}

/** Any published server, run by Deno. */
export function npmPackage(name: string, ...args: string[]): StdioServerParams {
  const spec = `npm:${name}`;
  return {
    command: Deno.execPath(),
    args: ["run", "-A", "--quiet", "--no-config", "--no-lock", spec, ...args],
    ...denoCache(),
  };
}

/** Leads servers, which inherit little, to where Deno keeps its packages. */
function denoCache(): Pick<StdioServerParams, "env"> {
  const cache = Deno.env.get("DENO_DIR");
  return cache === undefined ? {} : { env: { DENO_DIR: cache } };
}

/** How a Python program ended. */
export interface PythonEnd {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Options of {@linkcode python}. */
export interface PythonOptions {
  /** The door that it may call tools by. */
  door?: Door;
  /** Whether its session outlives the host. */
  durable?: boolean;
  /** Called with the process's id once it runs. */
  onStart?: (child: Deno.ChildProcess) => void;
  /** The interpreter. */
  command?: string;
}

/** Runs a Python program that can import the runtime. */
export async function python(code: string, options: PythonOptions = {}): Promise<PythonEnd> {
  const { door, durable = false, command = "python3" } = options;
  const child = new Deno.Command(command, {
    args: ["-W", "error::ResourceWarning", "-c", code],
    env: {
      PYTHONPATH: runtimePath,
      PYTHONDONTWRITEBYTECODE: "1",
      ...(door === undefined
        ? {}
        : { IPYBOX_TOOL_URL: door.url.href, IPYBOX_TOOL_TOKEN: door.token }),
      ...(durable ? { IPYBOX_TOOL_DURABLE: "1" } : {}),
    },
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  options.onStart?.(child);
  const { code: status, stdout, stderr } = await child.output();
  const decoder = new TextDecoder();
  return { code: status, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
}

/** Runs a Python program that must succeed, and gives what it printed last, as JSON. */
export async function pythonJson(code: string, options: PythonOptions = {}): Promise<unknown> {
  const end = await python(code, options);
  if (end.code !== 0) throw new Error(`Python failed:\n${end.stderr}`);
  return JSON.parse(end.stdout.trimEnd().split("\n").at(-1) ?? "");
}

/** A server that speaks HTTP, running. */
export interface HttpServer extends AsyncDisposable {
  readonly port: number;
  /** What it has said so far. */
  readonly output: () => string;
  /** Waits until it says something. */
  readonly untilSays: (text: string) => Promise<void>;
}

/** Starts a server that speaks HTTP and waits until it says that it does. */
export async function startHttpServer(
  params: StdioServerParams,
  ready: RegExp,
  port?: number,
): Promise<HttpServer> {
  const process = ManagedProcess.spawn({
    command: await programOf(params.command),
    args: params.args ?? [],
    env: {
      ...await inheritedEnvironment(),
      ...params.env,
      ...(port === undefined ? {} : { PORT: `${port}` }),
    },
    inputGraceMs: 100,
    onStderr: (line) => heard(line + "\n"),
  });
  let output = "";
  const listeners = new Set<() => void>();
  function heard(text: string): void {
    output += text;
    for (const listener of listeners) listener();
  }
  const until = (said: () => boolean): Promise<void> =>
    new Promise((resolve, reject) => {
      const check = () => {
        if (!said()) return;
        listeners.delete(check);
        resolve();
      };
      listeners.add(check);
      process.exited.then(() => reject(new Error(`The server ended: ${output}`)));
      check();
    });
  const reading = (async () => {
    const decoder = new TextDecoder();
    for await (const chunk of bytesOf(process.pipes)) {
      heard(decoder.decode(chunk, { stream: true }));
    }
  })();
  await until(() => ready.test(output));
  return {
    port: port ?? Number(/\d+/.exec(output)?.[0]),
    output: () => output,
    untilSays: (text) => until(() => output.includes(text)),
    [Symbol.asyncDispose]: async () => {
      process.signal("SIGTERM");
      await process.stop();
      await reading;
    },
  };
}

/** A port that was free a moment ago, for servers that cannot choose one themselves. */
export function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

/** Whether a process is there, zombies left aside. */
export async function isAlive(pid: number): Promise<boolean> {
  try {
    const status = await Deno.readTextFile(`/proc/${pid}/stat`);
    return !/\) Z /.test(status);
  } catch {
    return false;
  }
}
