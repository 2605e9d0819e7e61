/**
 * Placements: where kernels run, other than in this machine's sandbox.
 *
 * @module
 */
import { z } from "zod";
import { ConfigError } from "../base/errors.ts";
import { problemLines } from "../json/problems.ts";

/**
 * Kernels run in their own container, without a network.
 *
 * This machine's workspace is mounted there as `/workspace`, except for protected paths.
 */
export interface ContainerPlacement {
  /** The engine. Its command must be on the `PATH`. */
  readonly type: "docker" | "podman";
  /**
   * The image. It is never pulled.
   *
   * @default {"ipybox-kernel"}
   */
  readonly image?: string | undefined;
  /**
   * Whether code sees the workspace, or an empty folder that is removed with the session.
   *
   * @default {"bind"}
   */
  readonly workspace?: "bind" | "none" | undefined;
  /**
   * How many processors the session can use.
   *
   * @default {2}
   */
  readonly cpus?: number | undefined;
  /** Additional arguments of `run`, which can weaken the isolation. */
  readonly args?: readonly string[] | undefined;
}

/** Kernels run on another machine, in bubblewrap's sandbox. */
export interface SshPlacement {
  /** Its kind. */
  readonly type: "ssh";
  /** The machine, as `ssh` takes it: `HOST`, `USER@HOST`, or a name in its configuration. */
  readonly host: string;
  /**
   * The folder there that is the workspace. It is created if it does not exist.
   *
   * @default an empty folder that ends with the session
   */
  readonly workspace?: string | undefined;
  /** Additional arguments of `ssh`, before ipybox's own. */
  readonly args?: readonly string[] | undefined;
}

/**
 * Kernels run in a pod of a Kubernetes cluster: one that is created for the session, or one of a pool of
 * [agent-sandbox](https://agent-sandbox.sigs.k8s.io).
 */
export interface KubernetesPlacement {
  /** The kind of placement. `kubectl` must be on the `PATH`. */
  readonly type: "kubernetes";
  /**
   * The context in the configuration of `kubectl`.
   *
   * @default its current one
   */
  readonly context?: string | undefined;
  /**
   * The namespace.
   *
   * @default the context's
   */
  readonly namespace?: string | undefined;
  /** The `SandboxWarmPool` from which sessions claim pods. Its template defines them. */
  readonly pool?: string | undefined;
  /**
   * With a pool, the folder in its pods that is the workspace, as in {@linkcode SshPlacement}.
   *
   * @default an empty folder that ends with the session
   */
  readonly workspace?: string | undefined;
  /**
   * The image.
   *
   * @default {"ipybox-kernel"}
   */
  readonly image?: string | undefined;
  /** The `PersistentVolumeClaim` that is the workspace, mounted as `/workspace`. */
  readonly volume?: string | undefined;
  /**
   * How many processors are reserved for it; it cannot exceed them.
   *
   * @default {1}
   */
  readonly cpus?: number | undefined;
  /** The `RuntimeClass` of the pod, such as one of gVisor or Kata Containers. */
  readonly runtimeClassName?: string | undefined;
  /**
   * `false` gives the pod its own user namespace.
   *
   * @default the cluster's default
   */
  readonly hostUsers?: boolean | undefined;
}

/** Kernels run behind a command that forwards stdin and stdout. */
export interface CommandPlacement {
  /** Its kind. */
  readonly type: "command";
  /** The command, as a program and its arguments. The launcher's command is appended. */
  readonly command: readonly string[];
  /** Cleans up if the command fails. */
  readonly stop?: readonly string[] | undefined;
  /**
   * Whether bubblewrap creates the sandbox there. Otherwise, the command must provide one, without a network.
   *
   * @default {false}
   */
  readonly bubblewrap?: boolean | undefined;
  /** The folder there that is the workspace, as in {@linkcode SshPlacement}. */
  readonly workspace?: string | undefined;
}

/** Where kernels run, other than in this machine's sandbox. */
export type Placement =
  | ContainerPlacement
  | KubernetesPlacement
  | SshPlacement
  | CommandPlacement;

/** Whether code writes to the workspace on this machine. */
export function bindsWorkspace(placement: Placement): boolean {
  return (placement.type === "docker" || placement.type === "podman") &&
    placement.workspace !== "none";
}

const text = z.string().min(1).max(4096).refine((text) => !text.includes("\0"), "it has a NUL");
const folder = text.startsWith("/");
const name = text.regex(/^[a-z0-9][a-z0-9.-]*$/);
const image = text.refine((name) => !name.startsWith("-"), "it begins with -");

/** The keys that a pool's template replaces. */
const OF_A_POD = ["image", "volume", "cpus", "runtimeClassName", "hostUsers"] as const;

const placementSchema: z.ZodType<Placement> = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.enum(["docker", "podman"]),
    image: image.optional(),
    workspace: z.enum(["bind", "none"]).optional(),
    cpus: z.number().positive().optional(),
    args: z.array(text).optional(),
  }),
  z.strictObject({
    type: z.literal("kubernetes"),
    context: text.optional(),
    namespace: name.optional(),
    pool: name.optional(),
    workspace: folder.optional(),
    image: image.optional(),
    volume: name.optional(),
    cpus: z.number().positive().optional(),
    runtimeClassName: name.optional(),
    hostUsers: z.boolean().optional(),
  }).superRefine(({ pool, ...rest }, context) => {
    const wrong = pool === undefined ? ["workspace"] as const : OF_A_POD;
    for (const key of wrong) {
      if (rest[key] === undefined) continue;
      const message = pool === undefined
        ? "it is only for a pool: use volume"
        : "the pool's template defines it";
      context.addIssue({ code: "custom", path: [key], message });
    }
  }),
  z.strictObject({
    type: z.literal("ssh"),
    host: text.refine((name) => !name.startsWith("-"), "it begins with -"),
    workspace: folder.optional(),
    args: z.array(text).optional(),
  }),
  z.strictObject({
    type: z.literal("command"),
    command: z.array(text).min(1),
    stop: z.array(text).min(1).optional(),
    bubblewrap: z.boolean().optional(),
    workspace: folder.optional(),
  }),
]);

export function parsePlacement(value: unknown, source = "The placement"): Placement {
  const parsed = placementSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new ConfigError(`${source} cannot be used:\n${problemLines(parsed.error)}`);
}
