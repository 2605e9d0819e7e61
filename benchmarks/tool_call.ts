// deno-lint-ignore-file no-console -- it reports to a terminal
/**
 * What a tool call from Python costs: in a real kernel, sandboxed and not, against the round trip of
 * the MCP SDK's own client from Deno to the same server. And what importing the runtime costs.
 *
 * Run it with `deno run -A benchmarks/tool_call.ts`. The subjects take turns, so that a machine whose
 * speed drifts does not favour one of them; the ratios are what to quote.
 *
 * @module
 */
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { CodeExecutor } from "../mod.ts";
import { EVERYTHING, median, takeTurns, timesOf } from "./support.ts";

const ROUNDS = 15;
const CALLS = 300;
const WARM_UP = 100;

const MEASURE = `
import time as _time
import ipybox_runtime as _runtime
_everything = _runtime.ToolRunner("everything")
def _measure(calls):
    took = []
    for _ in range(calls):
        begin = _time.perf_counter()
        _everything.run_sync("echo", {"message": "hi"})
        took.append(_time.perf_counter() - begin)
    return sorted(took)[calls // 2] * 1000
_measure(${WARM_UP})`;

/** Imports the runtime as new, with what the kernel has loaded before for itself. */
const IMPORT = `
import sys as _sys
_kept = {name: _sys.modules.pop(name) for name in list(_sys.modules) if name.startswith("ipybox_runtime")}
_begin = _time.perf_counter()
import ipybox_runtime
print((_time.perf_counter() - _begin) * 1000)
_sys.modules.update(_kept)`;

const workspace = await Deno.makeTempDir({ prefix: "ipybox-bench-" });
try {
  await using stack = new AsyncDisposableStack();
  const client = stack.adopt(await connectSdk(), (client) => client.close());
  const plain = stack.use(await startExecutor(false));
  const sandboxed = stack.use(await startExecutor(true));
  const subjects: Record<string, () => Promise<number>> = {
    "SDK client from Deno": () => measureSdk(client),
    "Python, no sandbox": () => measureExecutor(plain),
    "Python, sandboxed": () => measureExecutor(sandboxed),
    "import, sandboxed": () => measureImport(sandboxed),
  };
  report(await takeTurns(subjects, ROUNDS));
} finally {
  await Deno.remove(workspace, { recursive: true });
}

async function connectSdk(): Promise<Client> {
  const client = new Client({ name: "benchmark", version: "1" });
  await client.connect(new StdioClientTransport({ ...EVERYTHING, stderr: "ignore" }));
  await callsOf(client, WARM_UP);
  return client;
}

async function startExecutor(sandbox: boolean): Promise<CodeExecutor> {
  const executor = await CodeExecutor.start({
    workspace,
    sandbox,
    servers: { everything: EVERYTHING },
    approval: "allow",
    log: { debug() {}, info() {}, warn() {}, error: (text) => console.error(text) },
  });
  await executor.execute(MEASURE);
  return executor;
}

async function measureSdk(client: Client): Promise<number> {
  return median(await callsOf(client, CALLS));
}

async function callsOf(client: Client, calls: number): Promise<number[]> {
  const call = { name: "echo", arguments: { message: "hi" } };
  return await timesOf(calls, () => client.callTool(call));
}

async function measureExecutor(executor: CodeExecutor): Promise<number> {
  return Number((await executor.execute(`print(_measure(${CALLS}))`)).text);
}

async function measureImport(executor: CodeExecutor): Promise<number> {
  return Number((await executor.execute(IMPORT)).text);
}

function report(results: ReadonlyMap<string, readonly number[]>): void {
  const base = results.get("SDK client from Deno") ?? [];
  console.log(`median of ${ROUNDS} rounds of ${CALLS} calls each, in milliseconds`);
  for (const [name, values] of results) {
    const ratios = values.map((value, round) => value / (base[round] ?? NaN));
    const ratio = name.startsWith("Python") ? `${median(ratios).toFixed(2)} x the SDK client` : "";
    console.log(`${name.padEnd(24)}${median(values).toFixed(3).padStart(8)}  ${ratio}`);
  }
}
