/** Kernels in pods of a real cluster. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import {
  EnvironmentNotReadyError,
  KernelDiedError,
  SandboxUnavailableError,
} from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import { CodeExecutor } from "../../src/executor/code_executor.ts";
import { endDurable, listSessions } from "../../src/executor/durable.ts";
import type { CodeExecutorOptions } from "../../src/executor/options.ts";
import { IMAGE_PYTHON } from "../../src/place/place_command.ts";
import type { KubernetesPlacement } from "../../src/place/placement.ts";
import { ManagedProcess } from "../../src/process/managed_process.ts";
import { ownProgram } from "../../src/process/program.ts";
import { ipybox } from "../support/cli.ts";
import { context, kubectl, TestNamespace, whyNoCluster } from "../support/cluster.ts";
import { CALLS, PARALLEL, TestSession } from "../support/durable.ts";
import { kernelImage } from "../support/engine.ts";
import { sha256 } from "../../src/json/digest.ts";
import { rejection, until } from "../support/wait.ts";
import { HttpMcp } from "../support/http_mcp.ts";
import { McpHost } from "../support/mcp_client.ts";
import { useSession } from "../support/placed.ts";
import { processesWith } from "../support/processes.ts";
import { testIf } from "../support/skip.ts";
import { TempCache } from "../support/temp_cache.ts";
import { TempFolder } from "../support/temp_folder.ts";

const why = await whyNoCluster();
const test = (name: string, fn: () => Promise<void>) =>
  testIf(why === undefined, why ?? "", { name, fn });

function placementIn({ name: namespace }: TestNamespace): KubernetesPlacement {
  // Small nodes have room for it, beside others.
  return { type: "kubernetes", context, namespace, image: kernelImage, cpus: 0.7 };
}

async function start(
  namespace: TestNamespace,
  workspace: string,
  placement: Partial<KubernetesPlacement> = {},
  options: CodeExecutorOptions = {},
): Promise<CodeExecutor> {
  return await CodeExecutor.start({
    workspace,
    log: silentLogger,
    placement: { ...placementIn(namespace), ...placement },
    ...options,
  });
}

const RUNNING = "open('/tmp/on', 'w').close()\nimport time; time.sleep(600)";

/** Waits until code runs in a pod. */
async function untilRunning(namespace: TestNamespace, pod: string): Promise<void> {
  await until("it runs", async () => {
    const { success } = await kubectl([
      ...["--namespace", namespace.name, "exec", pod, "--", "cat", "/tmp/on"],
    ]);
    return success;
  });
}

test("a session in a pod does what one here does, and its pod goes with it", async () => {
  await using namespace = await TestNamespace.create();
  await using folder = await TempFolder.create();
  {
    await using executor = await start(namespace, folder.path);
    await useSession(executor);
  }
  assertEquals(await namespace.names("pods"), []);
});

test("code in a pod has no network, no credential, and nothing to write to but its folders", async () => {
  await using namespace = await TestNamespace.create();
  await using folder = await TempFolder.create();
  await Deno.writeTextFile(`${folder.path}/mine.txt`, "mine");
  await using executor = await start(namespace, folder.path);
  const { text } = await executor.execute(`
import os, socket
def attempt(act):
    try:
        return str(act())
    except OSError as error:
        return type(error).__name__
print(os.listdir("."), os.getuid())
print([name for name in os.environ if "KUBERNETES" in name or "IPYBOX_NODE" in name])
print(os.path.exists("/var/run/secrets/kubernetes.io"))
print(attempt(lambda: socket.create_connection(("10.96.0.1", 443), 1)))
print(attempt(lambda: socket.getaddrinfo("kubernetes.default.svc", 443)))
print(attempt(lambda: socket.socket(socket.AF_UNIX).family.name))
print(attempt(lambda: open("/etc/x", "w")), attempt(lambda: open("/opt/ipybox/programs/launcher/kernel.py", "a")))
print(attempt(lambda: open("/proc/1/environ", "rb").read()))
print(attempt(lambda: open("/tmp/x", "w").write("x")))`);
  assertEquals(text?.split("\n"), [
    "[] 10001",
    "[]",
    "False",
    ...["OSError", "gaierror", "AF_UNIX"], // what it reaches is the pod's own
    "OSError PermissionError",
    "PermissionError",
    "1",
  ]);
});

test("a pod whose network is open is refused", async () => {
  const { success } = await kubectl(["get", "runtimeclass", "networked"]);
  if (!success) return; // no way to ask this cluster for one
  await using namespace = await TestNamespace.create();
  await using folder = await TempFolder.create();
  const error = await rejection(start(namespace, folder.path, { runtimeClassName: "networked" }));
  assert(error instanceof SandboxUnavailableError, `${error}`);
  assertMatch(error.message, /the network is open: .*:10250.*:443/);
  assertMatch(error.fix, /NetworkPolicy/);
  assertEquals(await namespace.names("pods"), []);
});

test("a pod that reaches another one is refused, though nobody listens there", async () => {
  if (!(await kubectl(["get", "runtimeclass", "networked"])).success) return;
  await using namespace = await TestNamespace.create();
  await using folder = await TempFolder.create();
  const spec = {
    runtimeClassName: "networked",
    restartPolicy: "Never",
    terminationGracePeriodSeconds: 0,
    automountServiceAccountToken: false,
    securityContext: {
      runAsNonRoot: true,
      runAsUser: 10001,
      seccompProfile: { type: "RuntimeDefault" },
    },
    containers: [{
      name: "other",
      image: kernelImage,
      imagePullPolicy: "Never",
      command: [IMAGE_PYTHON, "-c", "import threading; threading.Event().wait()"],
      resources: { limits: { cpu: "10m", memory: "64Mi" } },
      securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
    }],
  };
  const pod = { apiVersion: "v1", kind: "Pod", metadata: { name: "other" }, spec };
  await namespace.kubectl(["create", "--filename", "-"], JSON.stringify(pod));
  let address = "";
  await until("the other pod has an address", async () => {
    address = await namespace.kubectl([
      "get",
      "pod",
      "other",
      "--output",
      "jsonpath={.status.podIP}",
    ]);
    return address !== "";
  });
  const error = await rejection(start(namespace, folder.path, { runtimeClassName: "networked" }));
  assert(error instanceof SandboxUnavailableError, `${error}`);
  assert(error.message.includes(`${address}:443`), error.message);
});

test("a pod that is lost is a death that says so, and the next execution has another one", async () => {
  await using namespace = await TestNamespace.create();
  await using folder = await TempFolder.create();
  await using executor = await start(namespace, folder.path);
  const losses = [
    [["delete", "pod", "--wait=false"], /deleted/],
    [["evict"], /EvictionByEvictionAPI|deleted/],
  ] as const;
  for (const [[verb, ...args], message] of losses) {
    await executor.execute("a = 1");
    const [pod = ""] = await namespace.names("pods");
    const running = rejection(executor.execute(RUNNING));
    await untilRunning(namespace, pod);
    if (verb === "evict") await evict(namespace, pod);
    else await namespace.kubectl([verb, ...args, pod]);
    const error = await running;
    assert(error instanceof KernelDiedError, `${error}`);
    assertMatch(error.message + error.stderrTail, message);
    assertEquals((await executor.execute("'a' in globals()")).text, "False");
  }
});

async function evict({ name }: TestNamespace, pod: string): Promise<void> {
  const path = `/api/v1/namespaces/${name}/pods/${pod}/eviction`;
  const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name: pod } };
  const { success, text } = await kubectl(
    ["create", "--raw", path, "--filename", "-"],
    JSON.stringify(eviction),
  );
  assert(success, text);
}

test("what the cluster refuses, or cannot do, is told with what to do", async () => {
  await using namespace = await TestNamespace.create(
    "base",
    (manifests) => manifests.replace('pods: "20"', 'pods: "1"'),
  );
  await using folder = await TempFolder.create();
  const attempt = async (
    placement: Partial<KubernetesPlacement>,
    options?: CodeExecutorOptions,
  ) => {
    const error = await rejection(start(namespace, folder.path, placement, options));
    assert(error instanceof EnvironmentNotReadyError, `${error}`);
    if (!/quota/.test(error.message)) await until("its pod is gone", () => isEmpty(namespace));
    return error;
  };
  const cases: [Partial<KubernetesPlacement>, RegExp, RegExp][] = [
    [{ image: "no.such/image:1" }, /ImagePullBackOff.*no\.such\/image/, /image/],
    [{ image: "Not An Image" }, /InvalidImageName/, /image/],
    [{ runtimeClassName: "no-such" }, /RuntimeClass "no-such" not found/, /runtimeclass/],
    [{ namespace: "no-such" }, /namespaces "no-such" not found/, /get namespaces/],
    [{ context: "no-such" }, /no-such/, /cluster-info/],
    [
      { pool: "no-such", image: undefined, cpus: undefined },
      /WarmPoolNotFound/,
      /sandboxwarmpools/,
    ],
  ];
  for (const [placement, message, fix] of cases) {
    const error = await attempt(placement);
    assertMatch(error.message, message);
    assertMatch(error.fix, fix);
  }
  const late = await attempt({ cpus: 3.9 }, { startTimeoutMs: 4000 });
  assertMatch(late.message, /not ready in time.*Insufficient cpu/);
  const python = await attempt({}, { python: "/no/such/python3" });
  assertMatch(python.message, /no\/such\/python3/);
  assertMatch(python.fix, /--python/);
  const bare = await attempt({}, { python: "/usr/bin/python3" });
  assertMatch(bare.message, /lacks .*ipykernel/);

  await using _first = await start(namespace, folder.path);
  const second = await attempt({});
  assertMatch(second.message, /exceeded quota: sessions/);
  assertMatch(second.fix, /quota/);
});

/** Whether nothing is left of any pod, which would count. */
async function isEmpty(namespace: TestNamespace): Promise<boolean> {
  return (await namespace.kubectl(["get", "pods", "--output", "name"])).trim() === "";
}

test("all of a session together is bounded by its pod", async () => {
  await using namespace = await TestNamespace.create();
  await using folder = await TempFolder.create();
  const limits = { memoryBytes: 1024 ** 3 };
  await using executor = await start(namespace, folder.path, {}, { limits });
  // Each process stays below its own limit, and one of them has to go: on some nodes all of the pod.
  const grow = executor.execute(
    `
import subprocess, sys
grow = "data = bytearray(300 << 20)\\nfor at in range(0, len(data), 4096): data[at] = 1\\ninput()"
started = [subprocess.Popen([sys.executable, "-c", grow], stdin=subprocess.PIPE) for _ in range(5)]
while all(process.poll() is None for process in started): pass
print(sorted(process.poll() for process in started if process.poll() is not None)[0])
for process in started:
    process.kill(); process.wait()`,
    { timeoutMs: 120_000 },
  );
  const text = await grow.then(({ text }) => text, (error) => error.message + error.stderrTail);
  assertMatch(text ?? "", /^-9$|OOMKilled/);
});

/** Stops all that code could stop in a pod on a Linux before 6.12. */
const STOP_ALL = `import os, signal
for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
    with open(f"/proc/{pid}/cmdline", "rb") as file: line = file.read()
    if pid not in (1, os.getpid()) and b"kernel.py" not in line: os.kill(pid, signal.SIGSTOP)
`;

test("a host that is killed leaves no pod that runs, and the next session removes its name", async () => {
  await using namespace = await TestNamespace.create();
  await using folder = await TempFolder.create();
  const placement = `${folder.path}/placement.json`;
  await Deno.writeTextFile(placement, JSON.stringify(placementIn(namespace)));
  await Deno.mkdir(`${folder.path}/workspace`);
  const cli = new URL("../../cli.ts", import.meta.url).pathname;
  await using host = ManagedProcess.spawn({
    command: ownProgram(),
    args: [
      ...["run", "-A", cli, "run", "--placement", placement],
      ...["--workspace", `${folder.path}/workspace`],
      ...["-c", "print('up', flush=True); import time; time.sleep(600)"],
    ],
    env: Deno.env.toObject(),
  });
  const word = await host.pipes.read();
  assert(word !== null, host.stderrTail);
  const [pod = ""] = await namespace.names("pods");
  const phase = () =>
    namespace.kubectl(["get", "pod", pod, "--output", "jsonpath={.status.phase}"]);
  assertEquals(await phase(), "Running");
  await namespace.kubectl(["exec", pod, "--", IMAGE_PYTHON, "-c", STOP_ALL]);
  Deno.kill(host.pid, "SIGKILL");
  await until("the pod has ended", async () => await phase() === "Succeeded");
  await using _next = await start(namespace, `${folder.path}/workspace`);
  assert(!(await namespace.names("pods")).includes(pod), await namespace.kubectl(["get", "pods"]));
});

/** Kills the `kubectl` that leads to a pod. */
async function cut(pod: string): Promise<void> {
  let pids: number[] = [];
  await until("it leads there", async () => {
    pids = await processesWith(`exec\0--stdin\0--quiet\0${pod}\0`);
    return pids.length > 0;
  });
  for (const pid of pids) Deno.kill(pid, "SIGKILL");
}

/** Whether nothing is left of any pod, not even the name. */
async function hasNoPods(namespace: TestNamespace): Promise<boolean> {
  return (await namespace.names("pods")).length === 0;
}

test("a durable session in a pod outlives its killed host, and connections that are cut in mid-call", async () => {
  await using namespace = await TestNamespace.create();
  await using session = await TestSession.create(placementIn(namespace));
  const host = session.host("wait", "start", PARALLEL);
  const id = await host.said("id");
  await host.said("asked", CALLS);
  const [pod = ""] = await namespace.names("pods");
  await host.kill();
  await cut(pod);
  const { stdout } = await ipybox(["sessions", "--workspace", session.workspace]);
  assertMatch(stdout, new RegExp(`${id}  detached.*; at kubernetes; `));
  const end = "jsonpath={.items[*].spec.activeDeadlineSeconds}";
  assertEquals(await namespace.kubectl(["get", "pods", "--output", end]), `${7 * 86_400 + 120}`);

  const executor = await session.attach(id);
  let asked = 0;
  for await (const event of executor.resume()) {
    if (event.type === "approval") {
      if (asked++ % 4 === 0) await cut(pod);
      await event.request.accept();
    }
    if (event.type === "result") assertEquals(event.result.text, `${Array(CALLS).fill("done")} 42`);
  }
  assertEquals(asked, CALLS);
  assertEquals(await session.sent(), Array(CALLS).fill(1));
  const running = executor.execute("import time\nfor n in range(20): print(n); time.sleep(.1)");
  await cut(pod);
  assertEquals((await running).text, Array.from({ length: 20 }, (_, n) => n).join("\n"));
  await useSession(executor);
  assertEquals(await namespace.names("pods"), [pod]);
  await executor[Symbol.asyncDispose]();
  assertEquals(await namespace.names("pods"), []);
  assertEquals(await listSessions(session.workspace), []);
});

test("a durable session in a pod that nobody comes to ends, and so does one whose pod is deleted", async () => {
  await using namespace = await TestNamespace.create();
  await using session = await TestSession.create(placementIn(namespace));
  const idle = await session.start({ durable: { idleMs: 1000 } });
  await idle.detach();
  await until("its pod is gone", () => hasNoPods(namespace));
  await until("it is forgotten", async () => (await listSessions(session.workspace)).length === 0);

  const executor = await session.start();
  const { sessionId: id = "" } = executor;
  const [pod = ""] = await namespace.names("pods");
  const running = rejection(executor.execute(RUNNING));
  await untilRunning(namespace, pod);
  await namespace.kubectl(["delete", "pod", "--wait=false", pod]);
  const error = await running;
  assert(error instanceof KernelDiedError, `${error}`);
  await until("it is lost", async () => {
    const [listed] = await listSessions(session.workspace);
    return listed?.id === id && listed.status === undefined;
  });
  await endDurable(id);
});

test("a connection that is killed in a pod does not end its session", async () => {
  await using namespace = await TestNamespace.create();
  await using session = await TestSession.create(placementIn(namespace));
  const executor = await session.start();
  const { sessionId: id = "" } = executor;
  await executor.execute("a = 40");
  const [pod = ""] = await namespace.names("pods");
  const inPod = (code: string) => namespace.kubectl(["exec", pod, "--", IMAGE_PYTHON, "-c", code]);
  // It has its parent outside, and is neither the pod's first process nor the one that looks for it.
  await inPod(`import os, signal
for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
    with open(f"/proc/{pid}/stat") as file: parent = file.read().rpartition(")")[2].split()[1]
    if parent == "0" and pid not in (1, os.getpid()): os.kill(pid, signal.SIGKILL)`);
  assertEquals((await executor.execute("a + 2")).text, "42");
  await endDurable(id);
});

/** A pool whose pods small nodes have room for. */
const small = (manifests: string) =>
  manifests.replaceAll('cpu: "1"', "cpu: 700m")
    .replaceAll("image: ipybox-kernel", `image: ${kernelImage}`)
    .replace("replicas: 2", "replicas: 1");

test("a session claims a pod of a pool, which goes with it, with no more rights than it needs", async () => {
  const { success } = await kubectl(["get", "crd", "sandboxwarmpools.extensions.agents.x-k8s.io"]);
  if (!success) return; // a cluster without agent-sandbox
  await using namespace = await TestNamespace.create("pool", small);
  await using folder = await TempFolder.create();
  await until("a pod is warm", async () => {
    const ready = await namespace.kubectl([
      ...["get", "sandboxwarmpool", "ipybox", "--output", "jsonpath={.status.readyReplicas}"],
    ]);
    return ready === "1";
  });
  const [warm = ""] = await namespace.names("pods");
  {
    const pool = { pool: "ipybox", image: undefined, cpus: undefined };
    await using executor = await start(namespace, folder.path, pool);
    assertEquals((await namespace.names("sandboxclaims")).length, 1);
    assertEquals((await executor.execute("import socket; socket.gethostname()")).text, "'ipybox'");
    const claimed = "jsonpath={.items[*].status.sandbox.name}";
    assertEquals(await namespace.kubectl(["get", "sandboxclaims", "--output", claimed]), warm);
    await useSession(executor);
  }
  assertEquals(await namespace.names("sandboxclaims"), []);
  await until("its pod is gone", async () => !(await namespace.names("pods")).includes(warm));
});

test("a durable session in a pod of a pool outlives its connection and its host", async () => {
  const { success } = await kubectl(["get", "crd", "sandboxwarmpools.extensions.agents.x-k8s.io"]);
  if (!success) return; // a cluster without agent-sandbox
  await using namespace = await TestNamespace.create("pool", small);
  const { type, context, namespace: name } = placementIn(namespace);
  await using session = await TestSession.create({
    type,
    context,
    namespace: name,
    pool: "ipybox",
  });
  const executor = await session.start();
  const { sessionId: id = "" } = executor;
  await executor.execute("a = 40");
  const claimed = "jsonpath={.items[*].status.sandbox.name}";
  const pod = await namespace.kubectl(["get", "sandboxclaims", "--output", claimed]);
  await cut(pod);
  assertEquals((await executor.execute("a + 2")).text, "42");
  await executor.detach({ code: "import time; time.sleep(1); a + 3" });
  await cut(pod);
  const attached = await session.attach(id);
  for await (const event of attached.resume()) {
    if (event.type === "result") assertEquals(event.result.text, "43");
  }
  await attached[Symbol.asyncDispose]();
  assertEquals(await namespace.names("sandboxclaims"), []);
});

test("a pod whose runtime lets code make namespaces is moved out of its open network", async () => {
  if (!(await kubectl(["get", "runtimeclass", "networked"])).success) return;
  await using namespace = await TestNamespace.create(
    "pool",
    (manifests) =>
      small(manifests).replace("enforce: restricted", "enforce: privileged")
        .replace("type: RuntimeDefault", "type: Unconfined")
        .replace("      restartPolicy:", "      runtimeClassName: networked\n      restartPolicy:"),
  );
  await using folder = await TempFolder.create();
  const pool = { pool: "ipybox", image: undefined, cpus: undefined };
  await using executor = await start(namespace, folder.path, pool);
  const { text } = await executor.execute("open('/proc/net/dev').read().count(':')");
  assertEquals(text, "1");
});

test("clients over HTTP have a pod each, exchange files with it, and are told of quotas", async () => {
  await using namespace = await TestNamespace.create(
    "base",
    (manifests) => manifests.replace('pods: "20"', 'pods: "2"'),
  );
  await using folder = await TempFolder.create();
  const placement = `${folder.path}/placement.json`;
  await Deno.writeTextFile(placement, JSON.stringify({ ...placementIn(namespace), cpus: 0.5 }));
  const workspace = `${folder.path}/workspace`;
  await Deno.mkdir(workspace);
  await using server = await HttpMcp.start([
    "--workspace",
    workspace,
    "--placement",
    placement,
  ]);
  await using host = await McpHost.join(server.address, { kind: "2.x 2026-07-28" });
  const headers = { authorization: `Bearer ${server.address.token}` };
  const file = (session: string, path: string) =>
    new URL(`/sessions/${session}/files/${path}`, server.address.url);
  const one = await host.openSession(); // another one is that of calls which name none
  const bytes = crypto.getRandomValues(new Uint8Array(60_000));
  const put = await fetch(file(one, "data/in.bin"), { method: "PUT", body: bytes, headers });
  assertEquals([put.status, await put.text()], [204, ""]);
  const code = "import hashlib, os, pathlib\nos.symlink('/etc/hostname', 'link')\n" +
    "pathlib.Path('out.txt').write_text('made by code')\n" +
    "print(hashlib.sha256(open('data/in.bin', 'rb').read()).hexdigest())";
  const { text } = await host.call("execute_ipython_cell", { code, session: one });
  assertEquals(text.trim(), sha256(bytes));
  const get = async (session: string, path: string) => {
    const response = await fetch(file(session, path), { headers });
    return [response.status, await response.text()];
  };
  assertEquals(await get(one, "out.txt"), [200, "made by code"]);
  assertEquals((await get(one, "no.txt"))[0], 404);
  assertEquals((await get(one, "data"))[0], 403);
  const other = await host.call("execute_ipython_cell", { code: "import os; os.listdir('.')" });
  assertEquals(other.text.trim(), "[]");
  assertEquals((await namespace.names("pods")).length, 2);

  const two = await host.openSession();
  const refused = await host.call("execute_ipython_cell", { code: "1", session: two });
  assertEquals(refused.isError, true);
  assertMatch(refused.text, /exceeded quota: sessions/);
  assertEquals((await get(two, "out.txt"))[0], 503);
  await host.call("close_session", { session: one });
  await until("its pod is gone", async () => (await namespace.names("pods")).length === 1);
});

test("an HTTP server that was killed finds the sessions of its clients in their pods again", async () => {
  await using namespace = await TestNamespace.create();
  await using folder = await TempFolder.create();
  await using cache = await TempCache.create();
  const files = { placement: `${folder.path}/placement.json`, tokens: `${folder.path}/tokens` };
  await Deno.writeTextFile(
    files.placement,
    JSON.stringify({ ...placementIn(namespace), cpus: 0.5 }),
  );
  const [alice, bob] = ["alice-alice-alice-alice", "bob-bob-bob-bob-bob-bob"];
  const line = `placement=${files.placement}`;
  await Deno.writeTextFile(files.tokens, `${alice} ${line}\n${bob} ${line} sessions=1\n`);
  const workspace = `${folder.path}/workspace`;
  await Deno.mkdir(workspace);
  const args = ["--workspace", workspace, "--durable", "--token-file", files.tokens];
  const serve = (port?: string) => HttpMcp.start(args, { cache, port });
  await using _sessions = {
    [Symbol.asyncDispose]: async () => {
      const left = await listSessions((one) => one.workspace.startsWith(`${workspace}/`));
      for (const { id } of left) await endDurable(id);
    },
  };
  const first = await serve();
  const { url } = first.address;
  const kind = "2.x legacy";
  await using one = await McpHost.join({ url, token: alice }, { kind });
  await using other = await McpHost.join({ url, token: bob }, { kind });
  await one.execute("value = 'one'; open('kept', 'w').close()");
  await other.execute("value = 'other'");
  const pods = (await namespace.names("pods")).sort();
  assertEquals(pods.length, 2);
  await first.stop("SIGKILL");
  await using _second = await serve(url.port);
  assertMatch(await one.execute("import os; print(value, os.listdir('.'))"), /^one \['kept'\]/);
  assertMatch(await other.execute("print(value)"), /^other/);
  assertEquals((await namespace.names("pods")).sort(), pods);
  const refused = await rejection(McpHost.join({ url, token: bob }, { kind }));
  assertMatch(`${refused}`, /its share of the sessions: 1 of 8/);
});
