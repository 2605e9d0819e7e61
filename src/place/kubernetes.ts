/**
 * Pods as places of kernels: the objects that are created in the cluster, and how their status is read,
 * with `kubectl`.
 *
 * @module
 */
import { z } from "zod";
import { asset } from "../assets/mod.ts";
import {
  DEFAULT_IMAGE,
  IMAGE_PYTHON,
  type PlaceCommand,
  type Seen,
  type StartCommand,
} from "./place_command.ts";
import type { KubernetesPlacement } from "./placement.ts";

interface PodOptions {
  /** Its name, or its claim's. */
  readonly id: string;
  /** This machine's workspace, so that people can identify the pod. */
  readonly workspace: string;
  /** The Python that runs its first process. */
  readonly python: string;
  /** The memory limit of the whole pod; `null` for none. */
  readonly memoryBytes: number | null;
  /** How long it waits for a session after losing one; by default a few seconds. */
  readonly patienceSeconds?: number | undefined;
  /** Its maximum lifetime, if its session has one. */
  readonly maxSeconds?: number | undefined;
}

/** The mount point of a volume that is the workspace. */
const WORKSPACE = "/workspace";

/** The user id of code, which has no name in the image. */
const USER = 10001;

/** How long a pod waits for its session, and for another one after that, in seconds. */
const FIRST_WAIT = 300;
const AGAIN_WAIT = 15;

/** The time limit for one request to the API server. */
const REQUEST = "--request-timeout=20s";

const LABELS = {
  "app.kubernetes.io/name": "ipybox-kernel",
  "app.kubernetes.io/managed-by": "ipybox",
};

/** Selects pods that have exited because their host was gone. Only their names are left. */
const ENDED = [
  ...["--selector", Object.entries(LABELS).map((label) => label.join("=")).join(",")],
  ...["--field-selector", "status.phase=Succeeded", "--wait=false"],
];

/** A pod that is created for the session, or one from a pool. */
export function kubernetesCommand(
  placement: KubernetesPlacement,
  options: PodOptions,
): PlaceCommand {
  const { context, namespace, pool, workspace, volume } = placement;
  const kubectl = [
    "kubectl",
    ...(context === undefined ? [] : ["--context", context]),
    ...(namespace === undefined ? [] : ["--namespace", namespace]),
  ];
  const { id } = options;
  const made = pool === undefined ? "pod" : CLAIMS;
  const pod = pool === undefined ? ownPod(kubectl, id) : new ClaimedPod(kubectl, id);
  return {
    name: "kubernetes",
    start: [
      ...(pool === undefined ? [{ args: [...kubectl, "delete", "pods", ...ENDED, REQUEST] }] : []),
      {
        args: [...kubectl, "create", REQUEST, "--filename", "-"],
        input: JSON.stringify(
          pool === undefined ? podOf(placement, options) : claimOf(pool, options),
        ),
      },
    ],
    find: pod.find,
    fate: pod.state,
    gone: "\\(NotFound\\)|completed pod",
    command: (program) => [...kubectl, "exec", "--stdin", "--quiet", pod.name, "--", ...program],
    stop: [...kubectl, "delete", made, id, REQUEST, "--wait=false", "--ignore-not-found"],
    python: IMAGE_PYTHON,
    install: "add them to the image",
    workspace: volume === undefined ? workspace : WORKSPACE,
    isBound: false,
    usesBubblewrap: false,
    mayHaveInterfaces: true,
    beatMs: 15_000,
  };
}

/** A pod that has the session's name. */
function ownPod(
  kubectl: readonly string[],
  name: string,
): Pick<ClaimedPod, "name" | "state" | "find"> {
  const state = watchPod(kubectl, () => name);
  return { name, state, find: [state] };
}

const CLAIMS = "sandboxclaims.extensions.agents.x-k8s.io";
const SANDBOXES = "sandboxes.agents.x-k8s.io";

/** The pod of a claim. The claim names a sandbox, which names the pod. */
class ClaimedPod {
  readonly state: StartCommand;
  readonly find: readonly StartCommand[];
  #sandbox = "";
  #name = "";

  constructor(kubectl: readonly string[], id: string) {
    this.state = watchPod(kubectl, () => this.#name);
    const nameOfSandbox = () => this.#sandbox;
    this.find = [
      {
        args: [...kubectl, "get", CLAIMS, id, ...WATCH],
        until: (printed) => this.#seeClaim(printed),
      },
      {
        get args() {
          return [...kubectl, "get", SANDBOXES, nameOfSandbox(), REQUEST, "--output", "json"];
        },
        until: (printed) => this.#seeSandbox(printed),
      },
    ];
  }

  get name(): string {
    return this.#name;
  }

  #seeClaim(printed: unknown): Seen {
    const { status: { conditions, sandbox } } = claimSchema.parse(printed);
    const ready = conditions.find(({ type }) => type === "Ready");
    if (ready?.status === "True" && sandbox?.name !== undefined) {
      this.#sandbox = sandbox.name;
      return { is: "ready" };
    }
    const { reason = "", message = "the controller of agent-sandbox has not answered" } = ready ??
      {};
    const is = HOPELESS_CLAIMS.has(reason) || /exceeded quota|is forbidden/.test(message)
      ? "lost"
      : "waiting";
    return { is, why: sentence(reason, message) };
  }

  #seeSandbox(printed: unknown): Seen {
    const { name, annotations } = sandboxSchema.parse(printed).metadata;
    this.#name = annotations["agents.x-k8s.io/pod-name"] ?? name;
    return { is: "ready" };
  }
}

const WATCH = ["--watch", "--output", "json"];

function watchPod(kubectl: readonly string[], name: () => string): StartCommand {
  return {
    get args() {
      return [...kubectl, "get", "pod", name(), ...WATCH];
    },
    until: seePod,
    otherwise: {
      get args() {
        const fields = `involvedObject.name=${name()},type=Warning`;
        const which = ["--field-selector", fields, "--output", "json"];
        return [...kubectl, "get", "events", REQUEST, ...which];
      },
      read: lastWarning,
    },
  };
}

const name = z.string().regex(/^[a-z0-9][a-z0-9.-]{0,252}$/);

const conditionsSchema = z.array(z.object({
  type: z.string(),
  status: z.string(),
  reason: z.string().optional(),
  message: z.string().optional(),
})).default([]);

const claimSchema = z.object({
  status: z.object({
    conditions: conditionsSchema,
    sandbox: z.object({ name: name.optional() }).optional(),
  }).default({ conditions: [] }),
});

const sandboxSchema = z.object({
  metadata: z.object({
    name,
    annotations: z.object({ "agents.x-k8s.io/pod-name": name.optional() }).default({}),
  }),
});

/** Reasons why a claim will never be ready. */
const HOPELESS_CLAIMS = new Set([
  ...["WarmPoolNotFound", "TemplateNotFound", "InvalidMetadata", "VolumeClaimTemplatesError"],
  ...["ClaimExpired", "SandboxExpired", "PodFailed", "PodSucceeded"],
]);

const stateSchema = z.object({
  waiting: z.object({ reason: z.string().default(""), message: z.string().default("") }).optional(),
  terminated: z.object({
    reason: z.string().default(""),
    message: z.string().default(""),
    exitCode: z.number(),
  }).optional(),
});

const podSchema = z.object({
  metadata: z.object({ deletionTimestamp: z.string().nullish() }),
  status: z.object({
    phase: z.string().default("Pending"),
    reason: z.string().default(""),
    message: z.string().default(""),
    conditions: conditionsSchema,
    containerStatuses: z.array(z.object({ state: stateSchema.default({}) })).default([]),
  }),
});

/** Reasons why a container will never start. */
const HOPELESS = new Set([
  ...["ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"],
  ...["CreateContainerConfigError", "CreateContainerError", "RunContainerError"],
]);

export function seePod(printed: unknown): Seen {
  const { metadata, status } = podSchema.parse(printed);
  const { phase, reason, message, conditions, containerStatuses } = status;
  const condition = (type: string) => conditions.find((condition) => condition.type === type);
  const lost = (...why: string[]): Seen => ({ is: "lost", why: sentence(...why) });
  const disruption = condition("DisruptionTarget");
  if (phase === "Failed" && reason !== "") return lost(reason, message);
  const ended = containerStatuses.find(({ state }) => state.terminated)?.state.terminated;
  if (ended?.reason === "OOMKilled") {
    return lost("OOMKilled", "it took more memory than its limit (limits.memoryBytes)");
  }
  if (disruption?.status === "True") {
    return lost(disruption.reason ?? "", disruption.message ?? "");
  }
  if (metadata.deletionTimestamp != null) return lost("it was deleted");
  // The reason for its termination follows a little later.
  if (ended?.exitCode === 0 && phase !== "Succeeded") {
    return { is: "waiting", why: "its first process has ended" };
  }
  if (ended !== undefined) {
    return lost(
      ended.reason,
      ended.message || `its first process ended with code ${ended.exitCode}`,
    );
  }
  if (phase === "Failed" || phase === "Succeeded") return lost(`it has ${phase.toLowerCase()}`);
  const ready = condition("Ready");
  if (ready?.status === "True") return { is: "ready" };
  const waiting = containerStatuses.find(({ state }) => state.waiting)?.state.waiting;
  if (waiting !== undefined) {
    const is = HOPELESS.has(waiting.reason) ? "lost" : "waiting";
    return { is, why: sentence(waiting.reason, waiting.message) };
  }
  const scheduled = condition("PodScheduled");
  const why = scheduled?.status === "False"
    ? sentence(scheduled.reason ?? "", scheduled.message ?? "")
    : sentence(phase, ready?.message ?? "");
  return { is: "waiting", why };
}

const eventsSchema = z.object({
  items: z.array(z.object({ reason: z.string().default(""), message: z.string().default("") })),
});

function lastWarning(printed: unknown): string | undefined {
  const last = eventsSchema.parse(printed).items.at(-1);
  return last && sentence(last.reason, last.message);
}

function sentence(...parts: readonly string[]): string {
  return parts.filter((part) => part !== "").join(": ").slice(0, 1000);
}

/** The pod of a session, with nothing that its code does not need. */
export function podOf(
  { image = DEFAULT_IMAGE, volume, cpus = 1, runtimeClassName, hostUsers }: KubernetesPlacement,
  { id, workspace, python, memoryBytes, patienceSeconds = AGAIN_WAIT, maxSeconds }: PodOptions,
): unknown {
  const resources = {
    cpu: String(cpus),
    ...(memoryBytes === null ? {} : { memory: String(memoryBytes) }),
  };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: id, labels: LABELS, annotations: { "ipybox.workspace": workspace } },
    spec: {
      restartPolicy: "Never",
      ...(maxSeconds === undefined ? {} : { activeDeadlineSeconds: lastSecond(maxSeconds) }),
      terminationGracePeriodSeconds: 5,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      hostname: "ipybox",
      // Not the cluster's name servers: Kubernetes requires one, and nothing listens at this address.
      dnsPolicy: "None",
      dnsConfig: { nameservers: ["127.0.0.1"] },
      ...(runtimeClassName === undefined ? {} : { runtimeClassName }),
      ...(hostUsers === undefined ? {} : { hostUsers }),
      securityContext: {
        runAsNonRoot: true,
        runAsUser: USER,
        runAsGroup: USER,
        fsGroup: USER,
        seccompProfile: { type: "RuntimeDefault" },
      },
      containers: [{
        name: "kernel",
        image,
        imagePullPolicy: "IfNotPresent",
        command: [
          ...[python, "-I", "-S", "-c", asset("launcher/keep_alive.py")],
          ...[String(FIRST_WAIT), String(patienceSeconds)],
        ],
        env: [{ name: "IPYBOX_NODE", valueFrom: { fieldRef: { fieldPath: "status.hostIP" } } }],
        resources: { requests: resources, limits: resources },
        securityContext: {
          allowPrivilegeEscalation: false,
          capabilities: { drop: ["ALL"] },
          readOnlyRootFilesystem: true,
        },
        volumeMounts: [
          { name: "tmp", mountPath: "/tmp" },
          ...(volume === undefined ? [] : [{ name: "workspace", mountPath: WORKSPACE }]),
        ],
      }],
      volumes: [
        { name: "tmp", emptyDir: { sizeLimit: "4Gi" } },
        ...(volume === undefined
          ? []
          : [{ name: "workspace", persistentVolumeClaim: { claimName: volume } }]),
      ],
    },
  };
}

/** A time as Kubernetes accepts it: a whole number of 31 bits. */
function lastSecond(seconds: number): number {
  return Math.min(Math.ceil(seconds), 2 ** 31 - 1);
}

function momentIn(seconds: number): string {
  return new Date(Date.now() + lastSecond(seconds) * 1000).toISOString();
}

/** How long a claim whose pod has ended is kept, so that the reason can be read. */
const CLAIM_SECONDS = 60;

/** The claim of a session at agent-sandbox. It is deleted when its pod has exited. */
export function claimOf(pool: string, { id, workspace, maxSeconds }: PodOptions): unknown {
  return {
    apiVersion: "extensions.agents.x-k8s.io/v1beta1",
    kind: "SandboxClaim",
    metadata: { name: id, labels: LABELS, annotations: { "ipybox.workspace": workspace } },
    spec: {
      warmPoolRef: { name: pool },
      lifecycle: {
        ttlSecondsAfterFinished: CLAIM_SECONDS,
        shutdownPolicy: "Delete",
        ...(maxSeconds === undefined ? {} : { shutdownTime: momentIn(maxSeconds) }),
      },
    },
  };
}

/** The fix for an error message of `kubectl`. */
export function kubernetesFix(text: string): string {
  const known = FIXES.find(([pattern]) => pattern.test(text));
  return known?.[1] ?? "See what the cluster says: kubectl get pods,events";
}

const FIXES: readonly (readonly [RegExp, string])[] = [
  [
    /exceeded quota/,
    "End unneeded sessions, get a higher quota, or request less: limits.memoryBytes, cpus",
  ],
  [
    /is forbidden: User|Unauthorized|must be logged in/,
    "Check your permissions: kubectl auth can-i --list",
  ],
  [/RuntimeClass/, "Use one that the cluster has: kubectl get runtimeclass"],
  [
    /violates PodSecurity|unable to validate against any security/,
    "Allow such pods in the namespace",
  ],
  [/namespaces "[^"]*" not found/, "Use one that the cluster has: kubectl get namespaces"],
  [
    /image|ImagePull/i,
    "Use an image that the cluster's nodes can pull (key image of the placement)",
  ],
  [
    /Unable to connect|connection to the server|context [^ ]* does not exist|no configuration|dial tcp/i,
    "Check the connection: kubectl cluster-info",
  ],
  [
    /the server doesn't have a resource type|no matches for kind/,
    "Install agent-sandbox and its extensions in the cluster, version 0.5 or later",
  ],
  [
    /WarmPoolNotFound|TemplateNotFound/,
    "Use one that the namespace has: kubectl get sandboxwarmpools",
  ],
  [/persistentvolumeclaim/i, "Use one that the namespace has: kubectl get persistentvolumeclaims"],
  [
    /Unschedulable|Insufficient/,
    "Request less (limits.memoryBytes, cpus), or add nodes: kubectl describe nodes",
  ],
  [
    /executable file not found|no such file/i,
    "Use an image that has Python at this path: --python PATH",
  ],
];
