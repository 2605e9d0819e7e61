/** A kernel that cannot start, and what is said of it. */
import { assert, assertEquals, assertInstanceOf, assertMatch } from "@std/assert";
import { KernelStartError } from "../../src/errors.ts";
import { KernelClient } from "../../src/kernel/client.ts";
import { ipybox } from "../support/cli.ts";
import { rejection, TestGateway } from "../support/kernel.ts";
import { TempFolder } from "../support/temp_folder.ts";

/** With it Python ends as it starts. */
const BROKEN = { PYTHONHOME: "/no/such/folder" };

Deno.test("A kernel that ends as it starts is an error at once, with its last words", async () => {
  await using own = await TestGateway.start(BROKEN);
  const started = performance.now();

  const error = await rejection(KernelClient.start({ gateway: own.gateway }));

  assertInstanceOf(error, KernelStartError);
  assertMatch(error.message, /could not be started: its process ended before it answered/);
  assertMatch(error.stderrTail, /No module named 'encodings'/);
  assert(performance.now() - started < 30_000, "it was waited for until the time was up");
});

Deno.test("ipybox run says so, and that this machine is not ready", async () => {
  await using workspace = await TempFolder.create();
  const { code, stdout, stderr } = await ipybox([
    "run",
    "--no-sandbox",
    "--workspace",
    workspace.path,
    "-c",
    "1",
  ], { env: { KERNEL_ENV_PYTHONHOME: BROKEN.PYTHONHOME } });
  assertEquals([code, stdout], [3, ""]);
  assertMatch(stderr, /ipybox: The kernel could not be started/);
  assertMatch(stderr, /No module named 'encodings'/);
  assertEquals(/unexpected error|at file:/.test(stderr), false, stderr);
});
