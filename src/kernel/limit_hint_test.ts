import { assertEquals, assertMatch } from "@std/assert";
import { deathHint, limitHint } from "./traceback.ts";

const LIMITS = { memoryBytes: 1024 ** 3, processes: 60, fileBytes: 1000, cpuSeconds: 5 };
const NONE = { memoryBytes: null, processes: null, fileBytes: null, cpuSeconds: null };

const AGAIN = "[Errno 11] Resource temporarily unavailable";

Deno.test("An exception that comes from a limit names it", () => {
  for (
    const [ename, evalue, traceback, option] of [
      ["MemoryError", "", "", "memoryBytes"],
      ["OSError", "[Errno 12] Cannot allocate memory", "", "memoryBytes"],
      ["OSError", "[Errno 27] File too large", "", "fileBytes"],
      ["BlockingIOError", AGAIN, "self.pid = _fork_exec(", "processes"],
      ["RuntimeError", "can't start new thread", "", "processes"],
      ["CalledProcessError", "died with <Signals.SIGXCPU: 24>.", "", "cpuSeconds"],
    ] as const
  ) {
    const raised = { ename, evalue, traceback };
    assertMatch(
      limitHint(raised, LIMITS) ?? "",
      new RegExp(`Raise it with limits\\.${option}, or with --limit ${option}=N`),
    );
    assertEquals(limitHint(raised, NONE), undefined);
  }
});

Deno.test("A socket that would block hits no limit", () => {
  const raised = { ename: "BlockingIOError", evalue: AGAIN, traceback: "sock.recv(1)" };
  assertEquals(limitHint(raised, LIMITS), undefined);
});

Deno.test("Only a limit of CPU time ends a kernel", () => {
  assertMatch(deathHint("SIGXCPU", LIMITS) ?? "", /5 s of CPU time/);
  assertEquals(deathHint("SIGSEGV", LIMITS), undefined);
  assertEquals(deathHint("SIGKILL", NONE), undefined);
});
