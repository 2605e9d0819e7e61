import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { bytesOf } from "../base/streams.ts";
import { ManagedProcess, type ManagedProcessOptions } from "./managed_process.ts";
import { namedProgram } from "./program.ts";

const encoder = new TextEncoder();

function shell(script: string, options: Partial<ManagedProcessOptions> = {}): ManagedProcess {
  return ManagedProcess.spawn({
    command: namedProgram("/bin/sh"),
    args: ["-c", script],
    env: { PATH: "/usr/bin:/bin" },
    ...options,
  });
}

async function text(process: ManagedProcess): Promise<string> {
  return await new Response(ReadableStream.from(bytesOf(process.pipes))).text();
}

/** Whether a process, dead or alive but not yet reaped, has this id and still runs. */
async function runs(pid: number): Promise<boolean> {
  const stat = await Deno.readTextFile(`/proc/${pid}/stat`).catch(() => "");
  return stat !== "" && !/\) [ZX] /.test(stat);
}

async function untilGone(pid: number): Promise<void> {
  while (await runs(pid)) await new Promise((resolve) => setTimeout(resolve, 5));
}

Deno.test("ManagedProcess hands bytes to stdin and gives stdout and the exit code", async () => {
  await using process = shell("cat; exit 7");
  await process.pipes.write(encoder.encode("hello"));
  await process.pipes.end();

  assertEquals(await text(process), "hello");
  assertEquals(await process.exited, { exitCode: 7, signal: null });
});

Deno.test("ManagedProcess inherits nothing of the host's environment", async () => {
  await using process = ManagedProcess.spawn({
    command: namedProgram("/usr/bin/env"),
    env: { ONLY: "this" },
  });
  assertEquals(await text(process), "ONLY=this\n");
});

Deno.test("stop() lets a process end by itself when its stdin ends", async () => {
  const process = shell("cat >/dev/null; echo bye >&2; exit 3");
  assertEquals(await process.stop(), { exitCode: 3, signal: null });
  assertEquals(process.stderrTail, "bye\n");
});

Deno.test("stop() sends SIGTERM to a process that ignores the end of its stdin", async () => {
  const process = shell("exec sleep 1000", { inputGraceMs: 1 });
  assertEquals(await process.stop(), { exitCode: null, signal: "SIGTERM" });
});

Deno.test("stop() kills a process that ignores SIGTERM", async () => {
  const process = shell("trap '' TERM; echo up; while :; do sleep 1000; done", {
    inputGraceMs: 1,
    termGraceMs: 1,
  });
  await process.pipes.read();
  assertEquals(await process.stop(), { exitCode: null, signal: "SIGKILL" });
  assertEquals(await process.pipes.read(), null);
});

Deno.test("stop() also ends the processes that the process had started", async () => {
  await using process = shell("sleep 1000 & echo $!; wait", { inputGraceMs: 1 });
  const grandchild = Number(new TextDecoder().decode(await process.pipes.read() ?? undefined));
  assert(await runs(grandchild));
  await process.stop();
  await untilGone(grandchild);
});

Deno.test("a process that ends leaves nothing of its group behind", async () => {
  await using process = shell("sleep 1000 >/dev/null 2>&1 & echo $!");
  const grandchild = Number(await text(process));
  await process.exited;
  await untilGone(grandchild);
});

Deno.test("stop() ends the output of a process that left a daemon with its pipes", async () => {
  await using process = shell("setsid sleep 1000 & echo $!; exit 0");
  const daemon = Number(new TextDecoder().decode(await process.pipes.read() ?? undefined));
  try {
    assertEquals(await process.stop(), { exitCode: 0, signal: null });
    assertEquals(await process.pipes.read(), null);
  } finally {
    Deno.kill(daemon, "SIGKILL");
  }
});

Deno.test("stop() works with unread stdout and with a stdin that nobody reads", async () => {
  const process = shell("yes & exec sleep 1000", { inputGraceMs: 1 });
  const stuck = assertRejects(async () => {
    while (true) await process.pipes.write(new Uint8Array(1 << 20));
  }, Error);
  await process.stop();
  await stuck;
});

Deno.test("writing to a process that has ended fails and names it", async () => {
  await using process = shell("exit 0");
  await process.exited;
  const write = () => process.pipes.write(encoder.encode("x"));
  await assertRejects(write, Error, "Cannot write to /bin/sh");
});

Deno.test("exited reports the signal, and stderrTail has no terminal escapes", async () => {
  const lines: string[] = [];
  const script = String.raw`printf '\033[31mred\033[0m\nlast' >&2; kill -9 $$`;
  await using process = shell(script, { onStderr: (line) => lines.push(line) });
  assertEquals(await process.exited, { exitCode: null, signal: "SIGKILL" });
  assertEquals(process.stderrTail, "red\nlast\n");
  assertEquals(lines, ["red", "last"]);
});

Deno.test("spawn() names a command that does not exist, and a missing directory", () => {
  assertThrows(
    () => ManagedProcess.spawn({ command: namedProgram("/no/such/command"), env: {} }),
    Deno.errors.NotFound,
    "Cannot start /no/such/command: command not found",
  );
  assertThrows(
    () => shell("true", { cwd: "/no/such/directory" }),
    Deno.errors.NotFound,
    "working directory /no/such/directory does not exist",
  );
});
