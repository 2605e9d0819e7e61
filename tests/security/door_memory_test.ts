/** Attacks on the host's memory through the kernel's door. */
import { assert } from "@std/assert";
import { ManagedProcess } from "../../src/process/managed_process.ts";
import { until } from "../support/wait.ts";
import { testIf } from "../support/skip.ts";
import { ownProgram } from "../../src/process/program.ts";

interface Host extends AsyncDisposable {
  readonly pid: number;
  readonly port: number;
  readonly token: string;
}

async function startHost(): Promise<Host> {
  const root = new URL("../../", import.meta.url).pathname;
  const process = ManagedProcess.spawn({
    command: ownProgram(),
    args: [
      "run",
      "-A",
      "--quiet",
      `--config=${root}deno.json`,
      `${root}tests/fixtures/door_host.ts`,
    ],
    env: Deno.env.toObject(),
  });
  let said = "";
  while (!said.includes("\n")) {
    const value = await process.pipes.read();
    if (value === null) throw new Error(process.stderrTail);
    said += new TextDecoder().decode(value);
  }
  const { port, token } = JSON.parse(said);
  const [pid, dispose] = [process.pid, () => process[Symbol.asyncDispose]()];
  return { pid, port, token, [Symbol.asyncDispose]: dispose };
}

/** The most memory that a process has taken so far, in MiB. */
async function peakOf(pid: number): Promise<number> {
  const status = await Deno.readTextFile(`/proc/${pid}/status`);
  return Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1024;
}

/** Sends a call with an argument of that many bytes, and leaves the connection open. */
async function sendCall(host: Host, server: string, size: number): Promise<Deno.TcpConn> {
  const connection = await Deno.connect({ hostname: "127.0.0.1", port: host.port });
  const before = `{"server":"${server}","tool":"echo","arguments":{"text":"`;
  const head = { token: host.token, call: "run", size: before.length + size + 3 };
  const say = async (bytes: Uint8Array): Promise<void> => {
    for (let at = 0; at < bytes.length;) at += await connection.write(bytes.subarray(at));
  };
  const sending = async (): Promise<void> => {
    await say(new TextEncoder().encode(`${JSON.stringify(head)}\n${before}`));
    for (let left = size; left > 0; left -= FILLER.length) await say(FILLER.subarray(0, left));
    await say(new TextEncoder().encode('"}}'));
  };
  sending().catch(() => {}); // most of it is never taken
  return connection;
}

const FILLER = new TextEncoder().encode("x".repeat(1 << 20));
const MIB = 1 << 20;

async function answerTo(connection: Deno.TcpConn): Promise<string> {
  const buffer = new Uint8Array(4096);
  const length = await connection.read(buffer);
  return new TextDecoder().decode(buffer.subarray(0, length ?? 0));
}

testIf(Deno.build.os === "linux", "/proc tells how much memory a process has taken", {
  name: "A14: many huge calls at once take little of the host's memory, and others go on",
  fn: async () => {
    await using host = await startHost();
    const before = await peakOf(host.pid);
    const attack = await Promise.all(
      Array.from({ length: 60 }, () => sendCall(host, "raw", 15 * MIB)),
    );
    for (let n = 0; n < 20; n++) {
      using connection = await sendCall(host, "nowhere", 100);
      const answer = await answerTo(connection);
      assert(answer.includes("unknown_server"), answer);
    }
    // As much as is let in has been let in once nothing more is taken.
    let last = -1;
    await until(async () => {
      const peak = await peakOf(host.pid);
      const isSteady = peak === last && peak - before > 180;
      last = peak;
      if (!isSteady) await new Promise((resolve) => setTimeout(resolve, 100));
      return isSteady;
    });
    using small = await sendCall(host, "nowhere", 100);
    assert((await answerTo(small)).includes("unknown_server"));
    // These calls are refused as soon as they are parsed: all 900 MiB pass through, several times as
    // text and JSON, and some of it waits to be collected as garbage.
    assert(last - before < 1400, `${last - before} MiB`);

    for (const connection of attack) connection.close();
    using large = await sendCall(host, "nowhere", 15 * MIB);
    assert((await answerTo(large)).includes("unknown_server"), "what was taken was given back");
  },
});
