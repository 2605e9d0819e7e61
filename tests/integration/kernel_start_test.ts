/** A kernel that cannot start, and what is said of it. */
import { assert, assertEquals, assertInstanceOf, assertMatch } from "@std/assert";
import { asset } from "../../src/assets/mod.ts";
import { settledWithin } from "../../src/base/signals.ts";
import { KernelStartError } from "../../src/base/errors.ts";
import { KernelClient } from "../../src/kernel/client.ts";
import { ManagedProcess } from "../../src/process/managed_process.ts";
import { cliArguments, ipybox } from "../support/cli.ts";
import { rejection, until } from "../support/wait.ts";
import { TestGateway } from "../support/kernel.ts";
import { processesWith } from "../support/processes.ts";
import { testPython } from "../support/python.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { namedProgram } from "../../src/process/program.ts";

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

Deno.test("A gateway says in its answer, and not in its stderr, that a kernel is gone", async () => {
  await using own = await TestGateway.start();
  const { url, token } = own.gateway;
  const channels = new URL(`api/kernels/${crypto.randomUUID()}/channels`, url);

  const response = await fetch(channels, { headers: { Authorization: `token ${token}` } });

  assertEquals(response.status, 404);
  assertMatch(await response.text(), /404: Not Found/);
});

Deno.test("A kernel that ends as it starts is started again", async () => {
  await using own = await TestGateway.start();
  const script = `${own.gateway.sessionDir}/launcher/kernel.py`;
  const starting = KernelClient.start({ gateway: own.gateway });
  let first: number[] = [];
  await until("it starts", async () => (first = await processesWith(script)).length > 0);
  for (const pid of first) Deno.kill(pid, "SIGKILL");

  await using client = await starting;

  assertEquals((await client.execute("6 * 7").result).text, "42");
  assertEquals((await processesWith(script)).filter((pid) => first.includes(pid)), []);
});

// Nobody listens to the heartbeat: a kernel without one works.
for (const taken of ["shell", "iopub", "stdin", "control"]) {
  Deno.test(`A kernel whose ${taken} port was taken meanwhile ends at once`, async () => {
    await using folder = await TempFolder.create();
    using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const ports = ["shell", "iopub", "stdin", "control", "hb"].map((name) => {
      using free = Deno.listen({ hostname: "127.0.0.1", port: 0 });
      return [`${name}_port`, name === taken ? listener.addr.port : free.addr.port] as const;
    });
    const settings = `${folder.path}/settings.json`;
    const transport = { transport: "tcp", ip: "127.0.0.1", key: "k" };
    const connection = { ...transport, ...Object.fromEntries(ports) };
    await Deno.writeTextFile(
      settings,
      JSON.stringify({ connection, limits: {}, apart: false, python_path: "" }),
    );
    const script = `${folder.path}/kernel.py`;
    await Deno.writeTextFile(script, asset("launcher/kernel.py"));

    await using kernel = ManagedProcess.spawn({
      command: namedProgram("/bin/sh"),
      args: ["-c", 'exec "$0" "$1" < "$2"', testPython(), script, settings],
      env: { PATH: "/usr/bin:/bin", HOME: folder.path },
    });

    assert(await settledWithin(kernel.exited, 60_000), "it goes on");
    assertEquals(await kernel.exited, { exitCode: 1, signal: null });
    assertMatch(kernel.stderrTail, /Address already in use/);
  });
}

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
      /ipybox: Cannot reach the kernel gateway on 127.0.0.1: Network is unreachable/,
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
