import { assertEquals, assertMatch } from "@std/assert";
import { deathHint, memoryNote } from "./traceback.ts";

const LIMITS = { memoryBytes: 1024 ** 3, processes: 60, fileBytes: 1000, cpuSeconds: 5 };
const NONE = { memoryBytes: null, processes: null, fileBytes: null, cpuSeconds: null };

/** Words of a process that could not allocate memory. */
const NO_MEMORY = [
  "Traceback (most recent call last):\nMemoryError",
  "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 22.4 GiB",
  "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc",
  "memory allocation of 16000000000 bytes failed",
  "memory allocation of Fatal Python error: Aborted", // as Polars' last words arrive
  "sh: 1: Cannot allocate memory",
  "==21==ERROR: AddressSanitizer failed to allocate 0xdfff0001000 (15392894357504) bytes at address",
];

Deno.test("A dead kernel names the limit that killed it", () => {
  const death = { signal: "SIGABRT", stderrTail: "", outOfMemory: false };
  for (const stderrTail of NO_MEMORY) {
    assertMatch(deathHint({ ...death, stderrTail }, LIMITS) ?? "", /1.0 GiB of memory. Raise/);
    assertEquals(deathHint({ ...death, stderrTail }, NONE), undefined);
  }
  assertMatch(
    deathHint({ ...death, signal: "SIGKILL", outOfMemory: true }, LIMITS) ?? "",
    /limits.memoryBytes/,
  );
  assertMatch(deathHint({ ...death, signal: "SIGXCPU" }, LIMITS) ?? "", /5 s of CPU time/);
  assertEquals(deathHint(death, LIMITS), undefined);
  assertEquals(deathHint({ ...death, signal: "SIGKILL" }, NONE), undefined);
});

Deno.test("A child's words for a lack of memory are explained, and nothing else", () => {
  for (const text of NO_MEMORY) assertMatch(memoryNote(text) ?? "", /limits.memoryBytes/);
  for (
    const text of [
      "Catch a MemoryError where it is raised",
      "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
      "torch.OutOfMemoryError: CUDA out of memory.",
    ]
  ) {
    assertEquals(memoryNote(text), undefined);
  }
});
