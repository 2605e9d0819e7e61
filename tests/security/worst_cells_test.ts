/** What one session's cell can do to the process that other sessions share: nothing that they notice. */
import { assert, assertEquals } from "@std/assert";
import { runProgram } from "../support/program.ts";
import { TempFolder } from "../support/temp_folder.ts";

/** Whether the larger cells do what they do ten times, as in `deno task soak`. */
const SOAK = Deno.env.has("IPYBOX_SOAK");

/** The longest that the process may compute at a stretch, and the most memory that it may take on top. */
const MAX_STALL_MS = 3000;
const MAX_GROWTH_MIB = SOAK ? 1024 : 768;

const TIMES = SOAK ? 10 : 1;

const RAW = `
import json
k = get_ipython().kernel
def send(kind, **content):
    k.send_response(k.iopub_socket, kind, content)
def raw(kind, content, times=1): # what takes the time is to be the host, not making them
    header = json.dumps(k.session.msg_header(kind), default=str).encode()
    parent = json.dumps(k.get_parent("shell")["header"], default=str).encode()
    parts = [header, parent, b"{}", content]
    message = [kind.encode(), b"<IDS|MSG>", k.session.sign(parts)] + parts
    for _ in range(times): k.iopub_socket.send_multipart(message)
def display(kind="display_data", metadata={}, id=None, times=1, **data):
    content = dict(data=data, metadata=metadata, transient={} if id is None else {"display_id": id})
    raw(kind, json.dumps(content).encode(), times)
M = 2**20
`;

/** Has the tool of a server called, which a person would be asked about. */
function call(args: string): string {
  return `from ipybox_runtime import ToolRunner
try: ToolRunner("raw").run_sync("echo", ${args})
except Exception as error: print(f"{type(error).__name__}: {error}"[:500])`;
}

/** The cells, and what their results must match. `output_collector_test.ts` has what each kind of output may take. */
const CELLS: Readonly<Record<string, readonly [code: string, outcome: RegExp]>> = {
  "a traceback of 60 MiB": [
    `send("error", ename="E", evalue="v", traceback=["File " + "/mcptools/" * (6 * M)])`,
    /^$/,
  ],
  "a reply of its own with 60 MiB": [
    `say = k.session.send
def send_long(stream, kind, content=None, *args, **kwargs):
    if kind == "execute_reply":
        k.session.send = say
        content = dict(status="error", ename="E", evalue="v" * (25 * M), traceback=["v" * (35 * M)])
    return say(stream, kind, content, *args, **kwargs)
k.session.send = send_long`,
    /E: vvv/,
  ],
  "messages of five million arrays": [
    `for i in range(${TIMES}): raw("display_data", b'{"data":{},"transient":{},"metadata":{"x":[' + b"[]," * 5_000_000 + b"[]]}}")`,
    /omitted: it has more than 250000 values/,
  ],
  "as many objects as are taken": [
    `for i in range(${
      20 * TIMES
    }): raw("display_data", b'{"data":{"text/plain":"x","application/json":[' + b'{"a":{}},' * 49_000 + b'1]},"metadata":{},"transient":{}}')`,
    /Some displays and errors were omitted/,
  ],
  "errors of 3 MiB each": [
    `raw("error", json.dumps(dict(ename="e" * M, evalue="v" * M, traceback=["t" * M])).encode(), ${
      80 * TIMES
    })`,
    /Some displays and errors were omitted/,
  ],
  "tens of thousands of pictures, most of which are cleared": [
    `for i in range(${TIMES}):
    display(times=9000, **{"image/svg+xml": "<svg/>"})
    send("clear_output", wait=False)
display(times=2000, **{"image/svg+xml": "<svg/>"})`,
    /1000 files of displays were not saved: there are more than 1000/,
  ],
  "nesting without end": [
    `for kind in ("display_data", "error", "stream", "status"):
    raw(kind, b'{"ename":' + b"[" * 100_000 + b"]" * 100_000 + b"}")`,
    /nests more than 500 levels/,
  ],
  "text of 60 MiB in one piece": [
    `for i in range(${TIMES}): send("stream", name="stdout", text="\\r=" * (20 * M))`,
    /omitted here/,
  ],
  "a call with 2.5 Mi combining marks": [
    call(String.raw`{"a": "\u0301" * (5 * M // 2)}`),
    /ApprovalUnavailableError: .*too large to be shown for approval/,
  ],
  "a call with 15 MiB of short texts": [
    call(String.raw`{"a": ["token=x " * 25] * 75_000}`),
    /ApprovalUnavailableError: .*too large to be shown for approval/,
  ],
  "a call that is larger than is taken": [
    call(`{"a": "x" * (60 * M)}`),
    /^ToolServerError: .*The body exceeds 16777216 bytes: write long values to a file/,
  ],
  "a call that is just small enough to be shown": [
    call(String.raw`{"a": "\u0301" * 100_000}`),
    /ApprovalRejectedError: .*characters were shown/,
  ],
};

Deno.test("another session does not notice", async (t) => {
  await using one = await TempFolder.create();
  await using other = await TempFolder.create();
  const codes = Object.values(CELLS).map(([code]) => RAW + code);
  const { reports, stderr } = await press([one.path, other.path, ...codes]);
  for (const [i, [name, [, outcome]]] of Object.entries(CELLS).entries()) {
    await t.step(name, () => {
      const report = reports[i];
      assert(report !== undefined, `The host ended: ${stderr.slice(0, 3000)}`);
      const shown = JSON.stringify(report);
      assert(report.stallMs < MAX_STALL_MS, shown);
      assert(report.grownMiB < MAX_GROWTH_MIB, shown);
      assert(outcome.test(report.outcome), shown);
      assertEquals(report.again, "again");
    });
  }
});

interface Report {
  readonly stallMs: number;
  readonly slowestMs: number;
  readonly grownMiB: number;
  readonly outcome: string;
  readonly again: string | null;
}

/** Has one process run all cells. One that ends it has no report, as have those after it. */
async function press(
  args: readonly string[],
): Promise<{ readonly reports: readonly Report[]; readonly stderr: string }> {
  const root = new URL("../../", import.meta.url).pathname;
  const host = `${root}tests/fixtures/pressed_host.ts`;
  const deno = ["run", "-A", "--quiet", `--config=${root}deno.json`, host].concat(args);
  const { stdout, stderr } = await runProgram(Deno.execPath(), deno);
  const lines = stdout.split("\n").filter((line) => line !== "");
  return { reports: lines.map((line) => JSON.parse(line)), stderr };
}
