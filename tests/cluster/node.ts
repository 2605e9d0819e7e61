// deno-lint-ignore-file no-console -- it talks to what started it
/**
 * The node of a cluster, and all that Kubernetes is: the first process of namespaces of its own, whose
 * end ends all others. `cluster.ts` starts it.
 *
 * @module
 */
import { messageOf } from "../../src/base/message_of.ts";
import { exists } from "../support/files.ts";
import { until } from "../support/wait.ts";

/** The clients of the API server: as whom they come, and in which group. */
const CLIENTS = {
  "admin": ["admin", "system:masters"],
  "agent-sandbox-controller": [
    "system:serviceaccount:agent-sandbox-system:agent-sandbox-controller",
    "system:serviceaccounts",
  ],
  "kube-controller-manager": ["system:kube-controller-manager"],
  "kube-proxy": ["system:kube-proxy"],
  "kube-scheduler": ["system:kube-scheduler"],
  "kubelet": ["system:node:node", "system:nodes"],
};
const SERVICES = "10.96.0.0/16";
const API_SERVICE = "10.96.0.1";
const DNS_SERVICE = "10.96.0.10"; // where nobody answers
const PODS = "10.244.0.0/24";

/** What `kubectl` calls the cluster. */
export const CONTEXT = "cluster";

/** The image that only holds the namespaces of a pod. */
export const PAUSE_IMAGE = "ipybox-pause";

/** What the kubelet would set on the machine, were these files not in front of it. */
const TUNABLES = {
  "kernel/keys/root_maxbytes": 25_000_000,
  "kernel/keys/root_maxkeys": 1_000_000,
  "kernel/panic": 10,
  "kernel/panic_on_oops": 1,
  "vm/overcommit_memory": 1,
  "vm/panic_on_oom": 0,
};

/** Where a cluster is. */
export interface Place {
  /** Its files. */
  readonly folder: string;
  /** The folder of the programs that were built. */
  readonly built: string;
  /** What its control groups are called, and the machine's end of the link to the node. */
  readonly name: string;
  /** The address of the node's end. */
  readonly node: string;
}

/** Runs until standard input ends. Says `inside` at once, and `up` as soon as pods can be made. */
async function beNode(place: Place): Promise<void> {
  const failure = Promise.withResolvers<never>();
  const over = Deno.stdin.readable.pipeTo(new WritableStream());
  console.log("inside");
  try {
    await Promise.race([bringUp(place, failure.reject), failure.promise, over]);
    console.log("up");
    await over;
  } catch (error) {
    console.error(messageOf(error));
  }
  Deno.exit(); // the end of the first process ends all others
}

/** Starts all programs, and waits until pods can be made. A program that ends meanwhile is told of. */
async function bringUp(place: Place, onEnd: (error: Error) => void): Promise<void> {
  const { folder, built, node } = place;
  const write: Write = (file, content) =>
    Deno.writeTextFile(
      `${folder}/${file}`,
      typeof content === "string" ? content : JSON.stringify(content),
    );
  const start = (command: string, ...args: readonly string[]) => {
    const name = command.slice(command.lastIndexOf("/") + 1);
    const log = `${folder}/logs/${name}`;
    const program = new Deno.Command("sh", {
      args: ["-c", 'exec "$@" > "$0" 2>&1', log, command, ...args],
      env: { KUBECONFIG: `${folder}/${name}.kubeconfig` },
      stdin: "null",
    }).spawn();
    program.status.then(async () => {
      onEnd(new Error(`${name} ended: ${(await Deno.readTextFile(log)).slice(-4_000)}`));
    });
  };
  const kubectl = (args: readonly string[], input = "") =>
    run(`${built}/kubectl`, ["--kubeconfig", `${folder}/admin.kubeconfig`, ...args], { input });

  for (const part of ["cni/bin", "cni/isolated", "cni/networked", "logs"]) {
    await Deno.mkdir(`${folder}/${part}`, { recursive: true });
  }
  await shieldMachine(place, write);
  await run("ip", ["link", "set", "lo", "up"]);
  await until("the link", () => exists("/sys/class/net/eth0"));
  await run("ip", ["addr", "add", `${node}/24`, "dev", "eth0"]);
  await run("ip", ["link", "set", "eth0", "up"]);
  await Deno.writeTextFile("/proc/sys/net/ipv4/ip_forward", "1");

  await writeIdentities(place, write);
  const etcd = "http://127.0.0.1:2379";
  start("etcd", ...[
    ...["--data-dir", "/var/lib/etcd", "--listen-client-urls", etcd],
    ...["--advertise-client-urls", etcd],
  ]);
  start(`${built}/kube-apiserver`, ...[
    ...[`--etcd-servers=${etcd}`, `--advertise-address=${node}`, "--secure-port=6443"],
    ...[`--tls-cert-file=${folder}/server.crt`, `--tls-private-key-file=${folder}/server.key`],
    ...[`--token-auth-file=${folder}/tokens.csv`, "--authorization-mode=Node,RBAC"],
    ...["--enable-admission-plugins=NodeRestriction", `--service-cluster-ip-range=${SERVICES}`],
    ...["--service-account-issuer=https://kubernetes.default.svc"],
    ...[`--service-account-key-file=${folder}/accounts.key`],
    ...[`--service-account-signing-key-file=${folder}/accounts.key`],
    ...[`--kubelet-client-certificate=${folder}/client.crt`],
    ...[`--kubelet-client-key=${folder}/client.key`],
    ...["--kubelet-preferred-address-types=InternalIP"],
    // Tests wait for the loss of a node, which takes minutes in other clusters.
    ...["--default-not-ready-toleration-seconds=2", "--default-unreachable-toleration-seconds=2"],
  ]);
  await until("the API server is ready", () => works(kubectl(["get", "--raw=/readyz"])));
  await kubectl(["apply", "--server-side", "--kustomize", `${built}/agent-sandbox`]);
  await kubectl(["wait", "--for=condition=Established", "crd", "--all"]);
  await kubectl(["apply", "--filename=-"], JSON.stringify(NETWORKED));

  start(`${built}/kube-controller-manager`, ...[
    ...["--leader-elect=false", `--kubeconfig=${folder}/kube-controller-manager.kubeconfig`],
    ...[`--service-account-private-key-file=${folder}/accounts.key`],
    ...[`--root-ca-file=${folder}/ca.crt`, "--use-service-account-credentials"],
    ...["--node-monitor-period=1s", "--node-monitor-grace-period=12s"],
  ]);
  start(
    `${built}/kube-scheduler`,
    ...["--leader-elect=false", `--kubeconfig=${folder}/kube-scheduler.kubeconfig`],
  );
  start(
    `${built}/agent-sandbox-controller`,
    ...["--leader-elect=false", "--extensions", "--enable-webhook=false"],
  );
  await write("proxy.json", {
    ...{ kind: "KubeProxyConfiguration", apiVersion: "kubeproxy.config.k8s.io/v1alpha1" },
    ...{ mode: "nftables", clusterCIDR: PODS, hostnameOverride: "node" },
    clientConnection: { kubeconfig: `${folder}/kube-proxy.kubeconfig` },
    // These would be settings of the whole machine.
    conntrack: { maxPerCore: 0, min: 0, tcpCloseWaitTimeout: "0s", tcpEstablishedTimeout: "0s" },
  });
  start(`${built}/kube-proxy`, `--config=${folder}/proxy.json`);

  await writeNetworks(folder, write);
  await write("containerd.toml", containerdSettings(folder));
  start("containerd", "--config", `${folder}/containerd.toml`);
  const ctr = ["--namespace", "k8s.io"];
  await until("containerd answers", () => works(run("ctr", [...ctr, "version"])));
  await run("ctr", [...ctr, "images", "import", `${folder}/images.tar`]);
  await write("kubelet.json", kubeletSettings(place));
  start(`${built}/kubelet`, ...[
    ...[`--config=${folder}/kubelet.json`, `--kubeconfig=${folder}/kubelet.kubeconfig`],
    ...["--hostname-override=node", `--node-ip=${node}`],
  ]);
  await kubectl(["wait", "--for=create", "--timeout=2m", "node/node", "serviceaccount/default"]);
  await kubectl(["wait", "--for=condition=Ready", "--timeout=2m", "node/node"]);
}

/** Writes a file of the cluster. */
type Write = (file: string, content: string | object) => Promise<void>;

/** Puts folders and settings of the node's own in front of those of the machine. */
async function shieldMachine({ folder, name }: Place, write: Write): Promise<void> {
  for (const path of ["/run", "/var/lib", "/var/log"]) {
    await Deno.mkdir(`${folder}${path}`, { recursive: true });
    await run("mount", ["--bind", `${folder}${path}`, path]);
  }
  // Images and the database go with the node. Volumes must not count as the memory of pods.
  for (const path of ["/var/lib/containerd", "/var/lib/etcd"]) {
    await Deno.mkdir(path);
    await run("mount", ["-t", "tmpfs", "tmpfs", path]);
  }
  for (const [setting, value] of Object.entries(TUNABLES)) {
    const file = setting.replaceAll("/", "-");
    await write(file, `${value}\n`);
    await run("mount", ["--bind", `${folder}/${file}`, `/proc/sys/${setting}`]);
  }
  const groups = "/sys/fs/cgroup";
  if (await exists(`${groups}/cgroup.controllers`)) return await Deno.mkdir(`${groups}/${name}`);
  for await (const { name: controller, isDirectory } of Deno.readDir(groups)) {
    if (isDirectory) await Deno.mkdir(`${groups}/${controller}/${name}`);
  }
}

/** Makes keys, certificates, and the tokens of the API server's clients. */
async function writeIdentities({ folder, node }: Place, write: Write): Promise<void> {
  const certify = (name: string, subject: string, ...args: readonly string[]) =>
    run("openssl", [
      ...["req", "-x509", "-days", "7", "-nodes", "-newkey", "ec"],
      ...["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", subject],
      ...["-keyout", `${folder}/${name}.key`, "-out", `${folder}/${name}.crt`, ...args],
    ]);
  const signed = ["-CA", `${folder}/ca.crt`, "-CAkey", `${folder}/ca.key`];
  const leaf = "basicConstraints=critical,CA:FALSE";
  await certify("ca", "/CN=cluster");
  await certify("server", "/CN=kube-apiserver", ...signed, ...[
    ...["-addext", leaf, "-addext"],
    `subjectAltName=IP:${node},IP:${API_SERVICE},DNS:kubernetes.default.svc`,
  ]);
  await certify("client", "/O=system:masters/CN=kube-apiserver", ...signed, "-addext", leaf);
  await run("openssl", ["genrsa", "-out", `${folder}/accounts.key`, "2048"]);

  const tokens: string[] = [];
  for (const [client, [user, group]] of Object.entries(CLIENTS)) {
    const token = crypto.randomUUID();
    tokens.push([token, user, user, ...(group === undefined ? [] : [group])].join(","));
    await write(`${client}.kubeconfig`, {
      ...{ kind: "Config", apiVersion: "v1", "current-context": CONTEXT },
      clusters: [{
        name: CONTEXT,
        cluster: {
          server: `https://${node}:6443`,
          "certificate-authority-data": btoa(await Deno.readTextFile(`${folder}/ca.crt`)),
        },
      }],
      users: [{ name: client, user: { token } }],
      contexts: [{ name: CONTEXT, context: { cluster: CONTEXT, user: client } }],
    });
  }
  await write("tokens.csv", tokens.join("\n") + "\n");
}

/** Makes the two networks: pods see none, unless their runtime class says `networked`. */
async function writeNetworks(folder: string, write: Write): Promise<void> {
  for (const plugin of ["bridge", "host-local", "loopback"]) {
    await Deno.symlink(`/usr/lib/cni/${plugin}`, `${folder}/cni/bin/${plugin}`);
  }
  // A pod must have an address to be called ready; this one is on no interface.
  const result = {
    cniVersion: "0.4.0",
    interfaces: [{ name: "eth0", sandbox: "/none" }],
    ips: [{ version: "4", interface: 0, address: "203.0.113.1/32" }],
  };
  await write("cni/bin/isolated", `#!/bin/sh\ncat > /dev/null\necho '${JSON.stringify(result)}'\n`);
  await Deno.chmod(`${folder}/cni/bin/isolated`, 0o755);
  const version = { cniVersion: "0.4.0" };
  await write("cni/isolated/isolated.conf", { ...version, name: "isolated", type: "isolated" });
  await write("cni/networked/networked.conf", {
    ...{ ...version, name: "networked", type: "bridge", bridge: "cni0", isGateway: true },
    ipam: {
      ...{ type: "host-local", dataDir: `${folder}/cni/addresses` },
      ...{ ranges: [[{ subnet: PODS }]], routes: [{ dst: "0.0.0.0/0" }] },
    },
  });
}

function containerdSettings(folder: string): string {
  const cri = `plugins."io.containerd.grpc.v1.cri"`;
  return `version = 2
[${cri}]
sandbox_image = "docker.io/library/${PAUSE_IMAGE}:latest"
# In a container, nobody may lower it.
restrict_oom_score_adj = true
[${cri}.cni]
bin_dir = "${folder}/cni/bin"
conf_dir = "${folder}/cni/isolated"
[${cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[${cri}.containerd.runtimes.networked]
runtime_type = "io.containerd.runc.v2"
cni_conf_dir = "${folder}/cni/networked"
`;
}

function kubeletSettings({ folder, name }: Place): object {
  return {
    ...{ kind: "KubeletConfiguration", apiVersion: "kubelet.config.k8s.io/v1beta1" },
    authentication: {
      ...{ anonymous: { enabled: false }, webhook: { enabled: true } },
      x509: { clientCAFile: `${folder}/ca.crt` },
    },
    authorization: { mode: "Webhook" },
    containerRuntimeEndpoint: "unix:///run/containerd/containerd.sock",
    ...{ cgroupDriver: "cgroupfs", cgroupRoot: `/${name}`, failCgroupV1: false },
    ...{ failSwapOn: false, makeIPTablesUtilChains: false, oomScoreAdj: 0 },
    ...{
      clusterDNS: [DNS_SERVICE],
      resolvConf: "/dev/null",
      volumePluginDir: "/var/lib/kubelet/plugins",
    },
    // The node shares its disk with the machine, which may be rather full.
    evictionHard: { "memory.available": "100Mi", "nodefs.available": "1%" },
    imageGCHighThresholdPercent: 100,
    nodeLeaseDurationSeconds: 8,
  };
}

/** The runtime class of pods with a network. */
const NETWORKED = {
  ...{ kind: "RuntimeClass", apiVersion: "node.k8s.io/v1" },
  ...{ metadata: { name: "networked" }, handler: "networked" },
};

interface RunOptions {
  readonly cwd?: string;
  readonly env?: Record<string, string>;
  readonly input?: string;
  readonly signal?: AbortSignal;
}

/** Runs a program, which must work, and gives what it wrote. */
export async function run(
  program: string,
  args: readonly string[],
  { cwd, env, input = "", signal }: RunOptions = {},
): Promise<string> {
  const options = {
    args: [...args],
    cwd,
    env,
    signal,
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  };
  const child = new Deno.Command(program, options as Deno.CommandOptions).spawn();
  const [{ success, stdout, stderr }] = await Promise.all([
    child.output(),
    new Blob([input]).stream().pipeTo(child.stdin).catch(() => {}), // it need not read it
  ]);
  const decoder = new TextDecoder();
  if (!success) throw new Error(`${program} ${args.join(" ")}: ${decoder.decode(stderr)}`);
  return decoder.decode(stdout);
}

const works = (attempt: Promise<unknown>): Promise<boolean> =>
  attempt.then(() => true, () => false);

if (import.meta.main) await beNode(JSON.parse(Deno.args[0] ?? ""));
