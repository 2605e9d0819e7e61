import { assertEquals } from "@std/assert";
import { describeExit, exitStatus } from "./traceback.ts";

Deno.test("describeExit() names codes, signals and what is likely behind them", () => {
  const cases: readonly (readonly [unknown, string])[] = [
    [3, "it exited with code 3"],
    [0, "it exited with code 0"],
    [-9, "it was killed (SIGKILL), perhaps because it ran out of memory"],
    [137, "it was killed (SIGKILL), perhaps because it ran out of memory"],
    [-11, "it crashed (SIGSEGV)"],
    [-15, "it was killed by SIGTERM"],
    [-99, "it was killed by signal 99"],
  ];
  for (const [code, description] of cases) {
    assertEquals(describeExit(exitStatus(code)), description);
  }
  assertEquals(exitStatus("junk"), { exitCode: null, signal: null });
});
