import { assertEquals, assertThrows } from "@std/assert";
import { effectiveLimits, rlimits } from "./limits.ts";

const linux = Deno.build.os === "linux";

Deno.test("limits have defaults, take changes, and can be taken away", () => {
  assertEquals(Object.keys(rlimits(effectiveLimits(undefined, { sandboxed: true })).all).sort(), [
    "RLIMIT_CORE",
    "RLIMIT_DATA",
    "RLIMIT_NOFILE",
    "RLIMIT_NPROC",
    ...(linux ? ["RLIMIT_SIGPENDING"] : []),
  ]);
  const some = { memoryBytes: null, processes: 7, fileBytes: null, cpuSeconds: 60 };
  assertEquals(rlimits(effectiveLimits(some, { sandboxed: false })), {
    all: {
      RLIMIT_CORE: 0,
      RLIMIT_NPROC: 7,
      RLIMIT_NOFILE: 2048,
      ...(linux ? { RLIMIT_SIGPENDING: 4096 } : {}),
    },
    kernel: { RLIMIT_CPU: 60 },
  });
  const none = { all: { RLIMIT_CORE: 0 }, kernel: {} };
  assertEquals(rlimits(effectiveLimits(false, { sandboxed: true })), none);
});

Deno.test("without the sandbox the user's other processes are not limited", () => {
  assertEquals(effectiveLimits(undefined, { sandboxed: false }).processes, null);
  assertEquals(effectiveLimits(undefined, { sandboxed: true }).processes, 1024);
});

Deno.test("an invalid limit is refused by its name", () => {
  for (const memoryBytes of [0, -1, 1.5, NaN]) {
    assertThrows(
      () => effectiveLimits({ memoryBytes }, { sandboxed: true }),
      RangeError,
      "limits.memoryBytes must be a positive whole number or null",
    );
  }
  const tooLittle = () => effectiveLimits({ memoryBytes: 10_000_000 }, { sandboxed: true });
  assertThrows(tooLittle, RangeError, "limits.memoryBytes must be at least 134217728 (128 MiB)");
});
