import { assertEquals, assertThrows } from "@std/assert";
import { rlimits } from "./limits.ts";

Deno.test("rlimits() has defaults, takes changes, and lets limits be taken away", () => {
  assertEquals(Object.keys(rlimits()).sort(), [
    "RLIMIT_AS",
    "RLIMIT_CORE",
    "RLIMIT_FSIZE",
    "RLIMIT_NPROC",
  ]);
  assertEquals(rlimits({ memoryBytes: null, processes: 7, fileBytes: null }), {
    RLIMIT_CORE: 0,
    RLIMIT_NPROC: 7,
  });
  for (const memoryBytes of [0, -1, 1.5, NaN]) {
    assertThrows(() => rlimits({ memoryBytes }), RangeError);
  }
});
