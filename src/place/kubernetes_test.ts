import { assert, assertEquals, assertMatch } from "@std/assert";
import { claimOf, kubernetesCommand, kubernetesFix, podOf, seePod } from "./kubernetes.ts";

const OPTIONS = { id: "ipybox-1", workspace: "/w", python: "/p", memoryBytes: 2 ** 30 };

/** The relevant parts of pods' status, from Kubernetes 1.34. */
const SEEN = {
  pulling: {
    phase: "Pending",
    conditions: [{ type: "Ready", status: "False", reason: "ContainersNotReady" }],
    containerStatuses: [{
      state: {
        waiting: {
          reason: "ImagePullBackOff",
          message: 'Back-off pulling image "no.such/image:1": ErrImagePull: failed to do request',
        },
      },
    }],
  },
  full: {
    phase: "Pending",
    conditions: [{
      type: "PodScheduled",
      status: "False",
      reason: "Unschedulable",
      message: "0/1 nodes are available: 1 Insufficient cpu.",
    }],
  },
  creating: {
    phase: "Pending",
    conditions: [{ type: "PodScheduled", status: "True" }],
    containerStatuses: [{ state: { waiting: { reason: "ContainerCreating" } } }],
  },
  ready: {
    phase: "Running",
    conditions: [{ type: "Ready", status: "True" }],
    containerStatuses: [{ state: { running: { startedAt: "2026-11-23T05:06:49Z" } } }],
  },
  evicted: {
    phase: "Failed",
    reason: "Evicted",
    message: 'Usage of EmptyDir volume "t" exceeds the limit "1Mi". ',
    conditions: [{ type: "Ready", status: "False", reason: "PodFailed" }],
    containerStatuses: [{ state: { terminated: { exitCode: 137, reason: "Error" } } }],
  },
  late: {
    phase: "Failed",
    reason: "DeadlineExceeded",
    message: "Pod was active on the node longer than the specified deadline",
    containerStatuses: [{ state: { terminated: { exitCode: 137, reason: "Error" } } }],
  },
  killed: {
    phase: "Failed",
    containerStatuses: [{ state: { terminated: { exitCode: 137, reason: "OOMKilled" } } }],
  },
  missing: {
    phase: "Failed",
    containerStatuses: [{
      state: {
        terminated: {
          exitCode: 128,
          reason: "StartError",
          message: 'exec: "/no/such": stat /no/such: no such file or directory: unknown',
        },
      },
    }],
  },
  ending: {
    phase: "Running",
    conditions: [{ type: "Ready", status: "False", reason: "PodCompleted" }],
    containerStatuses: [{ state: { terminated: { exitCode: 0, reason: "Completed" } } }],
  },
  nothing: {},
} as const;

Deno.test("seePod() says of a pod whether it can be used, and why not", () => {
  const see = (status: unknown, metadata = {}) => {
    const seen = seePod({ metadata, status });
    return seen.is === "ready" ? "ready" : `${seen.is}: ${seen.why}`;
  };
  assertEquals(Object.entries(SEEN).map(([name, status]) => `${name} ${see(status)}`), [
    "pulling lost: ImagePullBackOff: " + SEEN.pulling.containerStatuses[0].state.waiting.message,
    "full waiting: Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.",
    "creating waiting: ContainerCreating",
    "ready ready",
    `evicted lost: Evicted: ${SEEN.evicted.message}`,
    `late lost: DeadlineExceeded: ${SEEN.late.message}`,
    "killed lost: OOMKilled: it took more memory than its limit (limits.memoryBytes)",
    `missing lost: StartError: ${SEEN.missing.containerStatuses[0].state.terminated.message}`,
    "ending waiting: its first process has ended",
    "nothing waiting: Pending",
  ]);
  const gone = { deletionTimestamp: "2026-11-23T05:06:49Z" };
  assertEquals(see(SEEN.ready, gone), "lost: it was deleted");
  const disrupted = {
    ...SEEN.ready,
    conditions: [{
      type: "DisruptionTarget",
      status: "True",
      reason: "DeletionByTaintManager",
      message: "Taint manager: deleting due to NoExecute taint",
    }],
  };
  assertMatch(see(disrupted, gone), /^lost: DeletionByTaintManager: Taint manager/);
});

Deno.test("podOf() asks for nothing that code does not need", () => {
  const pod = JSON.stringify(podOf({ type: "kubernetes" }, OPTIONS));
  for (
    const part of [
      '"restartPolicy":"Never"',
      '"automountServiceAccountToken":false',
      '"enableServiceLinks":false',
      '"dnsPolicy":"None"',
      '"runAsNonRoot":true',
      '"seccompProfile":{"type":"RuntimeDefault"}',
      '"allowPrivilegeEscalation":false',
      '"capabilities":{"drop":["ALL"]}',
      '"readOnlyRootFilesystem":true',
      '"requests":{"cpu":"1","memory":"1073741824"},"limits":{"cpu":"1","memory":"1073741824"}',
    ]
  ) assert(pod.includes(part), part);
  for (const part of ["ports", "hostNetwork", "runtimeClassName", "hostUsers"]) {
    assert(!pod.includes(part), part);
  }
});

Deno.test("objects for a session with a maximum lifetime end by themselves", () => {
  const made = (maxSeconds?: number) => {
    const options = { ...OPTIONS, maxSeconds };
    return JSON.stringify([podOf({ type: "kubernetes" }, options), claimOf("warm", options)]);
  };
  assertMatch(made(90.5), /"activeDeadlineSeconds":91,.*"shutdownTime":"\d{4}-\d\d-\d\dT[\d:.]+Z"/);
  assertMatch(made(1e300), /"activeDeadlineSeconds":2147483647,.*"shutdownTime":"20/);
  for (const part of ["activeDeadlineSeconds", "shutdownTime"]) {
    assert(!made().includes(part), part);
  }
});

Deno.test("a claim's pod is the one that its sandbox names", () => {
  const place = kubernetesCommand({ type: "kubernetes", pool: "warm", context: "c" }, OPTIONS);
  const [claim, sandbox] = place.find ?? [];
  const see = claim?.until;
  const ready = (status: string, reason: string, message: string) => ({
    status: {
      conditions: [{ type: "Ready", status, reason, message }],
      sandbox: { name: "warm-a" },
    },
  });
  assertEquals(see?.({})?.is, "waiting");
  assertEquals(see?.(ready("False", "DependenciesNotReady", "Pod not ready"))?.is, "waiting");
  const missing = see?.(ready("False", "WarmPoolNotFound", 'SandboxWarmPool "warm" not found'));
  assertEquals(missing?.is, "lost");
  assertMatch(kubernetesFix("WarmPoolNotFound: …"), /sandboxwarmpools/);
  assertEquals(see?.(ready("True", "DependenciesReady", ""))?.is, "ready");
  assert(sandbox?.args.includes("warm-a"));
  const annotations = { "agents.x-k8s.io/pod-name": "warm-pod" };
  sandbox?.until?.({ metadata: { name: "warm-a", annotations } });
  assertEquals(place.command(["python3"]), [
    ...["kubectl", "--context", "c", "exec", "--stdin", "--quiet", "warm-pod", "--", "python3"],
  ]);
});
