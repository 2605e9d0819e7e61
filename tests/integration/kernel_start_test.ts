/** A kernel that cannot start, and what is said of it. */
import { assert, assertEquals, assertInstanceOf, assertMatch } from "@std/assert";
import { KernelStartError } from "../../src/errors.ts";
import { KernelClient } from "../../src/kernel/client.ts";
import { cliArguments, ipybox } from "../support/cli.ts";
import { rejection, TestGateway } from "../support/kernel.ts";
import { testIf } from "../support/skip.ts";
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

const namespaces = await new Deno.Command("unshare", { args: ["-rn", "true"] }).output()
  .then(({ success }) => success, () => false);

testIf(namespaces, "`unshare -rn` does not work here", {
  name: "where not even loopback works, ipybox run says so",
  async fn() {
    await using workspace = await TempFolder.create();
    const { success, code, stderr } = await new Deno.Command("unshare", {
      args: ["-rn", Deno.execPath(), ...cliArguments, "run", "--no-sandbox", "-c", "1"],
      cwd: workspace.path,
      env: { NO_COLOR: "1" },
      stdin: "null",
    }).output();
    assertEquals([success, code], [false, 3]);
    assertMatch(
      new TextDecoder().decode(stderr),
      /ipybox: The kernel gateway does not answer as it should: Network is unreachable/,
    );
  },
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
