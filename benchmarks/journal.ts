// deno-lint-ignore-file no-console -- it reports to a terminal
/**
 * What the journal of a durable session costs: approved calls from Python to a server that answers
 * without delay, with the journal and without.
 *
 * Run it with `deno run -A benchmarks/journal.ts [FOLDER]`, where FOLDER is on the disk to measure. The
 * subjects take turns, and the least of each counts: other programs only add to it.
 *
 * @module
 */
import { CallJournal } from "../src/calls/journal.ts";
import { ToolServer } from "../src/calls/tool_server.ts";
import { pythonJson } from "../tests/support/mcp.ts";
import { EVERYTHING } from "./support.ts";

const ROUNDS = 15;
const CALLS = 200;

const MEASURE = `
import json, time
import ipybox_runtime as r
everything = r.ToolRunner("everything")
took = []
for _ in range(${CALLS}):
    begin = time.perf_counter()
    everything.run_sync("echo", {"message": "hi"})
    took.append(time.perf_counter() - begin)
print(json.dumps(sorted(took)[${CALLS} // 2] * 1000))`;

const folder = await Deno.makeTempDir({ prefix: "ipybox-bench-", dir: Deno.args[0] });
try {
  for (const approval of ["ask", "allow"] as const) {
    await using subjects = new AsyncDisposableStack();
    const start = async (options: { journal?: CallJournal }): Promise<ToolServer> => {
      // Each has an audit log, as in a workspace.
      const workspace = await Deno.makeTempDir({ dir: folder });
      const tools = subjects.use(
        await ToolServer.start({
          ...options,
          workspace,
          approval,
          servers: { everything: EVERYTHING },
        }),
      );
      subjects.use(tools.runner.channel.attach((request) => void request.accept()));
      return tools;
    };
    const journal = subjects.use(await CallJournal.open(`${folder}/${approval}`));
    const plain = await start({});
    const durable = await start({ journal });
    const measure = async (tools: ToolServer): Promise<number> =>
      Number(
        await pythonJson(MEASURE, { door: tools.kernelDoor, durable: tools === durable }),
      );
    for (const tools of [plain, durable]) await measure(tools);
    const rounds: (readonly [number, number])[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      rounds.push([await measure(plain), await measure(durable)]);
    }
    const [without, with_] = [0, 1].map((at) =>
      Math.min(...rounds.map((times) => times[at] ?? NaN))
    );
    console.log(
      `${approval.padEnd(6)} without ${without?.toFixed(3)} ms, with ${with_?.toFixed(3)} ms: ` +
        `${((with_ ?? NaN) / (without ?? NaN)).toFixed(2)} x`,
    );
  }
} finally {
  await Deno.remove(folder, { recursive: true });
}
