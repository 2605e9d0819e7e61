// deno-lint-ignore-file no-console -- a script talks to whoever started it
/**
 * `deno task cluster [COMMAND…]`: a Kubernetes cluster of one node for tests. It runs the command with
 * `KUBECONFIG` and `IPYBOX_TEST_CLUSTER` set and `kubectl` in its `PATH`, and takes the cluster down with
 * it; without a command it says how to set them, and the cluster runs until Ctrl-C.
 *
 * Everything is real: etcd, the API server, the scheduler, the controllers, kube-proxy, the kubelet,
 * containerd, runc, and the controller of agent-sandbox. All of it lives in namespaces of its own, with
 * its files below a temporary folder: the end of its first process ends it all, and the machine's
 * settings and firewall stay as they are. Pods have no network; those of the runtime class `networked`
 * reach each other and the API server.
 *
 * The first run builds Kubernetes into the user's cache, which takes 15 minutes on two cores.
 *
 * @module
 */
import { dirname } from "node:path";
import { messageOf } from "../../src/base/message_of.ts";
import { abortable } from "../../src/base/signals.ts";
import { cacheFolder } from "../../src/files/user_folders.ts";
import { engineName, kernelImage, whyNoEngine } from "../support/engine.ts";
import { exists } from "../support/files.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { CONTEXT, PAUSE_IMAGE, type Place, run } from "./node.ts";

/** What the machine must have; Debian's docker.io, etcd-server and containernetworking-plugins do. */
const NEEDED = [
  ...["/usr/bin/containerd", "/usr/bin/ctr", "/usr/sbin/runc", "/usr/bin/etcd"],
  ...["/usr/lib/cni/bridge", "/usr/lib/cni/host-local", "/usr/lib/cni/loopback"],
  ...["/usr/bin/openssl", "/usr/bin/unshare", "/usr/bin/mount", "/usr/sbin/ip", "/usr/sbin/nft"],
];

/** The programs that `main.go` holds. */
const PROGRAMS = [
  ...["kubectl", "kubelet", "kube-apiserver", "kube-controller-manager", "kube-proxy"],
  "kube-scheduler",
];
const AGENT_SANDBOX = "sigs.k8s.io/agent-sandbox@v0.5.6";

/** agent-sandbox without the deployment of its controller, which is started as a program. */
const OVERLAY = {
  ...{ kind: "Kustomization", apiVersion: "kustomize.config.k8s.io/v1beta1" },
  resources: ["k8s"],
  patches: [
    {
      patch: JSON.stringify({
        ...{ $patch: "delete", kind: "Deployment", apiVersion: "apps/v1" },
        metadata: { name: "agent-sandbox-controller", namespace: "agent-sandbox-system" },
      }),
    },
    // The controller asks for this where its webhook is off.
    {
      target: { kind: "CustomResourceDefinition" },
      patch: JSON.stringify([
        { op: "replace", path: "/spec/conversion", value: { strategy: "None" } },
      ]),
    },
  ],
};

/** Starts a cluster, and runs the command with it or waits for a signal. */
async function withCluster(command: readonly string[]): Promise<number> {
  const lacking = await whatIsLacking();
  if (lacking !== undefined) {
    console.error(`No cluster can be started here: ${lacking}`);
    return 1;
  }
  await using parts = new AsyncDisposableStack();
  const interruption = new AbortController();
  const interrupt = () => interruption.abort();
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    Deno.addSignalListener(signal, interrupt);
    parts.defer(() => Deno.removeSignalListener(signal, interrupt));
  }
  const { signal } = interruption;
  try {
    const built = await build(signal);
    const { path: folder } = parts.use(await TempFolder.create());
    await saveImages(folder, signal);
    // The numbers tell this cluster from others on the machine.
    const [name, subnet] = [`ipybox${Deno.pid}`, `10.213.${Deno.pid % 256}`];
    const node = startNode({ folder, built, name, node: `${subnet}.2` }, parts);
    const lines = node.stdout.pipeThrough(new TextDecoderStream()).getReader();
    const next = async () => {
      const { done } = await abortable(lines.read(), signal);
      if (done) throw new Error("The cluster did not come up");
    };
    await next(); // it has its namespaces
    await run("ip", [
      ...["link", "add", name, "type", "veth"],
      ...["peer", "name", "eth0", "netns", `${node.pid}`],
    ]);
    await run("ip", ["addr", "add", `${subnet}.1/24`, "dev", name]);
    await run("ip", ["link", "set", name, "up"]);
    await next(); // it is up

    const own = { KUBECONFIG: `${folder}/admin.kubeconfig`, IPYBOX_TEST_CLUSTER: CONTEXT };
    const [program, ...args] = command;
    if (program === undefined) {
      const variables = Object.entries(own).map(([name, value]) => `${name}=${value}`).join(" ");
      console.log(`export ${variables} PATH=${built}:$PATH`);
      await abortable(node.status, signal);
      throw new Error("The cluster ended");
    }
    const env = { ...own, PATH: `${built}:${Deno.env.get("PATH")}` };
    return (await new Deno.Command(program, { args, env, signal }).spawn().status).code;
  } catch (error) {
    if (!signal.aborted) console.error(messageOf(error));
    return signal.aborted ? 130 : 1;
  }
}

/** What this machine has too little of; `undefined` where a cluster can be started. */
async function whatIsLacking(): Promise<string | undefined> {
  if (Deno.build.os !== "linux" || Deno.uid() !== 0) return "it needs Linux and root";
  for (const path of NEEDED) {
    if (!await exists(path)) return `there is no ${path}`;
  }
  if (!await exists(await builtFolder())) {
    try {
      await run("go", ["version"]);
    } catch {
      return "there is no Go to build Kubernetes with";
    }
  }
  if (engineName !== "docker") return "its images come from docker";
  return await whyNoEngine();
}

/** The folder of the programs; other sources have another one. */
async function builtFolder(): Promise<string> {
  const sources = await Promise.all(
    ["go.mod", "go.sum", "main.go"].map((name) =>
      Deno.readTextFile(new URL(name, import.meta.url))
    ),
  );
  const text = JSON.stringify([sources, PROGRAMS, AGENT_SANDBOX, OVERLAY]);
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return `${cacheFolder()}/cluster/${new Uint8Array(hash).toHex().slice(0, 16)}`;
}

/** Builds the programs, unless they are there. */
async function build(signal: AbortSignal): Promise<string> {
  const built = await builtFolder();
  if (await exists(built)) return built;
  console.error(`Building Kubernetes into ${built}: this takes 15 minutes on two cores`);
  await Deno.mkdir(dirname(built), { recursive: true });
  await using folder = await TempFolder.create(dirname(built));
  const made = `${folder.path}/made`;
  await Deno.mkdir(`${made}/agent-sandbox`, { recursive: true });
  const options = { env: { CGO_ENABLED: "0" }, signal };
  const go = (...args: string[]) => run("go", args, { ...options, cwd: import.meta.dirname });
  const version = (await go("list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")).trim();
  const stamps = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"]
    .map((name) => `-X ${name}.gitVersion=${version}`);
  const flags = ["-trimpath", "-ldflags", `-s -w ${stamps.join(" ")}`];
  await go("build", ...flags, "-o", `${made}/kubernetes`, ".");
  for (const program of PROGRAMS) await Deno.symlink("kubernetes", `${made}/${program}`);

  const { Dir } = JSON.parse(
    await run("go", ["mod", "download", "-json", AGENT_SANDBOX], { ...options, cwd: folder.path }),
  );
  const controller = "agent-sandbox-controller";
  await run("go", ["build", "-trimpath", "-o", `${made}/${controller}`, `./cmd/${controller}`], {
    ...{ ...options, cwd: Dir },
  });
  await run("cp", ["-r", "--no-preserve=mode", `${Dir}/k8s`, `${made}/agent-sandbox`]);
  await Deno.writeTextFile(`${made}/agent-sandbox/kustomization.yaml`, JSON.stringify(OVERLAY));
  await Deno.rename(made, built);
  return built;
}

/** The images of the node: the kernels', and one that only holds the namespaces of a pod. */
async function saveImages(folder: string, signal: AbortSignal): Promise<void> {
  await Deno.writeTextFile(
    `${folder}/Dockerfile`,
    `FROM ${kernelImage}\nENTRYPOINT ["sleep", "infinity"]\n`,
  );
  const pause = ["--tag", PAUSE_IMAGE, "--file", `${folder}/Dockerfile`, folder];
  await run("docker", ["build", ...pause], { signal });
  const images = ["--output", `${folder}/images.tar`, kernelImage, PAUSE_IMAGE];
  await run("docker", ["save", ...images], { signal });
}

/** Starts a node, which lives until it is disposed. */
function startNode(place: Place, parts: AsyncDisposableStack): Deno.ChildProcess {
  const program = new URL("node.ts", import.meta.url).pathname;
  const node = new Deno.Command("unshare", {
    args: [
      ...["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"],
      ...[Deno.execPath(), "run", "-A", program, JSON.stringify(place)],
    ],
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  parts.defer(async () => {
    await node.stdin.close().catch(() => {}); // its end is the signal, unless it is gone
    await node.status;
    const below = ["-path", `*/${place.name}`, "-o", "-path", `*/${place.name}/*`];
    await run("find", ["/sys/fs/cgroup", "-depth", "-type", "d", "(", ...below, ")", "-delete"]);
  });
  return node;
}

const [first, ...others] = Deno.args;
Deno.exitCode = await withCluster(first === "--" ? others : Deno.args);
