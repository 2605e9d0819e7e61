// deno-lint-ignore-file no-console -- it reports to a terminal
/**
 * What a start and an end cost, in time and memory: of `ipybox run`, with and without the sandbox, times
 * a kernel that `jupyter_client` starts, executes in and ends; of a `CodeExecutor` until its first
 * result, and its end; of `ipybox mcp` until it answers, as the SDK's least server does, and until its
 * first cell has; of a session over HTTP until its first cell has, with and without `--pool`; and the
 * memory (PSS) of each process of one, ten, … sessions of one host. `IPYBOX_REFERENCE_PYTHON` may name a
 * Python with the reference (`pip install ipybox "mcp<2"`), which then takes part without its sandbox.
 *
 * `deno run -A benchmarks/start.ts [ROUNDS] [SESSIONS…]`, on Linux. `--other FOLDER` adds the `ipybox run`
 * and `ipybox mcp` of another checkout. All take turns; the least of each is what to quote while other
 * programs run.
 *
 * @module
 */
import { dirname } from "node:path";
import { parseArgs } from "node:util";
import { findPython } from "../kernel.ts";
import { startOwn } from "../src/executor/code_executor.ts";
import { memoryOf, processesBelow, takeTurns, timed } from "./support.ts";

const { values: { other }, positionals: [rounds = "5", ...sessions] } = parseArgs({
  args: Deno.args,
  options: { other: { type: "string" } },
  allowPositionals: true,
});
const reference = Deno.env.get("IPYBOX_REFERENCE_PYTHON");

type Times = Record<string, () => Promise<number>>;

async function main(): Promise<void> {
  const workspace = await Deno.makeTempDir({ prefix: "ipybox-bench-" });
  try {
    await Deno.mkdir(`${workspace}/run`);
    await compare(await subjectsIn(`${workspace}/run`));
    for (const count of sessions) {
      await weigh(Number(count), `${workspace}/${count}`);
      if (reference !== undefined) await weighReference(Number(count));
    }
  } finally {
    await Deno.remove(workspace, { recursive: true });
  }
}

async function subjectsIn(workspace: string): Promise<Times> {
  const python = (await findPython()).executable;
  const here = new URL("..", import.meta.url).pathname;
  const cli = (folder: string, ...args: string[]) => [
    ...[Deno.execPath(), "run", "-A", "--no-check", `${folder}/cli.ts`],
    ...[...args, "--workspace", workspace],
  ];
  const run = (folder: string, ...args: string[]) => () =>
    timed(() => finished(cli(folder, "run", "-c", "print(1)", ...args)));
  const direct = "from jupyter_client.manager import start_new_kernel as start; m, c = start(); " +
    "c.execute_interactive('print(1)'); c.stop_channels(); m.shutdown_kernel(now=True)";
  return {
    "direct ZMQ": () => timed(() => finished([python, "-c", direct])),
    "run": run(here),
    "run, no sandbox": run(here, "--no-sandbox"),
    "executor, first result": async () => (await timeExecutor(workspace)).start,
    "executor, end": async () => (await timeExecutor(workspace)).end,
    "bare MCP, initialize": () =>
      timeMcp([Deno.execPath(), "run", "-A", `${here}benchmarks/bare_mcp.ts`], false),
    "mcp, initialize": () => timeMcp(cli(here, "mcp"), false),
    "mcp, first cell": () => timeMcp(cli(here, "mcp"), true),
    "http, first cell": () => timeHttp(cli(here, "mcp"), 0),
    "http, first cell, pool": () => timeHttp(cli(here, "mcp"), 1),
    ...(reference === undefined ? {} : referenceSubjects(reference, workspace)),
    ...(other === undefined ? {} : {
      "other run": run(other),
      "other run, no sandbox": run(other, "--no-sandbox"),
      "other mcp, initialize": () => timeMcp(cli(other, "mcp"), false),
    }),
  };
}

function referenceSubjects(python: string, workspace: string): Times {
  const server = [`${dirname(python)}/ipybox`, "--workspace", workspace];
  const executor = async (): Promise<{ start: number; end: number }> => {
    const { stdout } = await new Deno.Command(python, {
      args: ["-c", REFERENCE, "1"],
      stdin: "null",
      stderr: "null",
    }).output();
    const [start = NaN, end = NaN] = new TextDecoder().decode(stdout).split("\n").map(Number);
    return { start, end };
  };
  return {
    "reference, first result": async () => (await executor()).start,
    "reference, end": async () => (await executor()).end,
    "reference mcp, initialize": () => timeMcp(server, false),
    "reference mcp, first cell": () => timeMcp(server, true),
  };
}

/** Starts so many executors of the reference, prints the milliseconds, and those of the end after stdin's. */
const REFERENCE = `
import asyncio, contextlib, sys, tempfile, time
from ipybox import CodeExecutor

async def main():
    begin = time.perf_counter()
    async with contextlib.AsyncExitStack() as executors:
        for _ in range(int(sys.argv[1])):
            directory = executors.enter_context(tempfile.TemporaryDirectory())
            executor = await executors.enter_async_context(CodeExecutor(images_dir=directory))
            async for _ in executor.stream("1 + 1"):
                pass
        print((time.perf_counter() - begin) * 1000, flush=True)
        sys.stdin.read()
        begin = time.perf_counter()
    print((time.perf_counter() - begin) * 1000)

asyncio.run(main())`;

async function timeExecutor(workspace: string): Promise<{ start: number; end: number }> {
  const begin = performance.now();
  const options = { workspace, spareKernel: false };
  const executor = await startOwn(options);
  await executor.execute("1 + 1");
  const result = performance.now();
  await executor[Symbol.asyncDispose]();
  return { start: result - begin, end: performance.now() - result };
}

async function finished([program = "", ...args]: readonly string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(program, { args, stdin: "null" }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}

/** From the start of a server until it has answered a request. */
async function timeMcp([program = "", ...args]: string[], cell: boolean): Promise<number> {
  const begin = performance.now();
  const server = new Deno.Command(program, {
    args,
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const input = server.stdin.getWriter();
  const send = (message: Record<string, unknown>) =>
    input.write(new TextEncoder().encode(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`));
  const clientInfo = { name: "bench", version: "1" };
  await send({
    id: 1,
    method: "initialize",
    params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo },
  });
  const lines = server.stdout.pipeThrough(new TextDecoderStream()).getReader();
  await until(lines, '"id":1');
  if (cell) {
    await send({ method: "notifications/initialized" });
    const params = { name: "execute_ipython_cell", arguments: { code: "print(1)" } };
    await send({ id: 2, method: "tools/call", params });
    await until(lines, '"id":2');
  }
  const time = performance.now() - begin;
  await input.close();
  while (!(await lines.read()).done); // to its end
  await server.status;
  return time;
}

/** From a client's first request to an idle server until its first cell has run. */
async function timeHttp([program = "", ...args]: string[], pool: number): Promise<number> {
  const options = ["--http", "0", "--no-token", "--verbose", "--pool", `${pool}`];
  const server = new Deno.Command(program, {
    args: [...args, ...options],
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const lines = server.stderr.pipeThrough(new TextDecoderStream()).getReader();
  const seen = await until(lines, pool === 0 ? "Serving MCP at" : "is ready for a client");
  const url = /Serving MCP at (\S+)/.exec(seen)?.[1] ?? "";
  const drained = (async () => {
    while (!(await lines.read()).done);
  })();
  const begin = performance.now();
  const headers = new Headers({
    accept: "application/json, text/event-stream",
    "content-type": "application/json",
  });
  const post = async (message: Record<string, unknown>) => {
    const body = JSON.stringify({ jsonrpc: "2.0", ...message });
    const answer = await fetch(url, { method: "POST", headers, body });
    const session = answer.headers.get("mcp-session-id");
    if (session !== null) headers.set("mcp-session-id", session);
    return await answer.text();
  };
  const clientInfo = { name: "bench", version: "1" };
  const protocolVersion = "2025-06-18";
  await post({
    id: 1,
    method: "initialize",
    params: { protocolVersion, capabilities: {}, clientInfo },
  });
  headers.set("mcp-protocol-version", protocolVersion);
  await post({ method: "notifications/initialized" });
  const params = { name: "execute_ipython_cell", arguments: { code: "print(6 * 7)" } };
  const answer = await post({ id: 2, method: "tools/call", params });
  const time = performance.now() - begin;
  if (!answer.includes('"42')) throw new Error(`It does not answer: ${answer}`);
  server.kill("SIGTERM");
  await drained;
  await server.status;
  return time;
}

async function until(lines: ReadableStreamDefaultReader<string>, part: string): Promise<string> {
  for (let seen = "";;) {
    const { value, done } = await lines.read();
    if (done) throw new Error(`The server has ended, having written: ${seen}`);
    seen += value;
    if (seen.includes(part)) return seen;
  }
}

async function compare(subjects: Times): Promise<void> {
  const results = await takeTurns(subjects, Number(rounds));
  const least = new Map([...results].map(([name, times]) => [name, Math.min(...times)]));
  console.log(`Milliseconds, the least of ${rounds}; in brackets, times direct ZMQ\n`);
  for (const [name, time] of least) {
    const ratio = time / (least.get("direct ZMQ") ?? NaN);
    console.log(`${name.padEnd(24)}${time.toFixed(0).padStart(6)} (${ratio.toFixed(2)})`);
  }
}

/** Starts sessions one after the other, has each answer, and says what they take together. */
async function weigh(count: number, workspace: string): Promise<void> {
  await using executors = new AsyncDisposableStack();
  for (let number = 0; number < count; number++) {
    const own = `${workspace}/${number}`;
    await Deno.mkdir(own, { recursive: true });
    const options = { workspace: own, spareKernel: false };
    const executor = await startOwn(options);
    executors.use(executor);
    if ((await executor.execute("6 * 7")).text !== "42") throw new Error("It does not answer");
  }
  await printSizes(Deno.pid, `${count} sessions`, count);
}

async function weighReference(count: number): Promise<void> {
  const host = new Deno.Command(reference ?? "", {
    args: ["-c", REFERENCE, `${count}`],
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const lines = host.stdout.pipeThrough(new TextDecoderStream()).getReader();
  await until(lines, "\n");
  await printSizes(host.pid, `${count} sessions of the reference`, count);
  await host.stdin.close();
  while (!(await lines.read()).done);
  await host.status;
}

async function printSizes(host: number, what: string, count: number): Promise<void> {
  const sizes: Record<string, number> = {};
  for (const pid of await processesBelow(host)) {
    const line = (await Deno.readTextFile(`/proc/${pid}/cmdline`)).split("\0");
    const script = line.find((word) => word.endsWith(".py")) ?? line[0] ?? "";
    const name = pid === host ? "host" : script.slice(script.lastIndexOf("/") + 1);
    sizes[name] = (sizes[name] ?? 0) + await memoryOf(pid);
  }
  console.log(`\nMiB of ${what}, and of each beside the host:`);
  let all = 0;
  for (const [name, size] of Object.entries(sizes)) {
    console.log(`${name.padEnd(24)}${size.toFixed(1).padStart(8)}`);
    if (name !== "host") all += size;
  }
  console.log(`${"a session".padEnd(24)}${(all / count).toFixed(1).padStart(8)}`);
}

if (import.meta.main) await main();
