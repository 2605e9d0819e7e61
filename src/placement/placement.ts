/**
 * What a placement says: where kernels run, other than in this machine's sandbox.
 *
 * @module
 */
import { z } from "zod";
import { ConfigError } from "../base/errors.ts";
import { problemLines } from "../json/problems.ts";

/**
 * Kernels run in a container of their own, without a network.
 *
 * The folder of this machine that is the workspace is seen there as `/workspace`, but for what code must
 * not touch.
 */
export interface ContainerPlacement {
  /** The engine, whose command is on the `PATH`. */
  readonly type: "docker" | "podman";
  /**
   * The image. It is never pulled.
   *
   * @default {"ipybox-kernel"}
   */
  readonly image?: string | undefined;
  /**
   * Whether code sees the workspace, or has an empty folder that ends with the session.
   *
   * @default {"bind"}
   */
  readonly workspace?: "bind" | "none" | undefined;
  /**
   * How many processors all of it can take.
   *
   * @default {2}
   */
  readonly cpus?: number | undefined;
  /** Further arguments of `run`. What they open is open. */
  readonly args?: readonly string[] | undefined;
}

/** Kernels run on another machine, in a sandbox that bubblewrap makes there. */
export interface SshPlacement {
  /** What kind it is. */
  readonly type: "ssh";
  /** The machine, as `ssh` takes it: `HOST`, `USER@HOST`, or a name in its configuration. */
  readonly host: string;
  /**
   * A folder there that code works in. It is made if it does not exist.
   *
   * @default an empty folder that ends with the session
   */
  readonly workspace?: string | undefined;
  /** Further arguments of `ssh`, before its others. */
  readonly args?: readonly string[] | undefined;
}

/**
 * Kernels run in a pod of a Kubernetes cluster: one that is made for the session, or one of a pool of
 * [agent-sandbox](https://agent-sandbox.sigs.k8s.io).
 */
export interface KubernetesPlacement {
  /** What kind it is. `kubectl` is on the `PATH`. */
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
  /** The `SandboxWarmPool` that sessions claim their pods from. Its template says what these are like. */
  readonly pool?: string | undefined;
  /**
   * With a pool, a folder of its pods that code works in, as of {@linkcode SshPlacement}.
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
  /** The `PersistentVolumeClaim` that code works in, as `/workspace`. */
  readonly volume?: string | undefined;
  /**
   * How many processors are reserved for it, which it cannot exceed.
   *
   * @default {1}
   */
  readonly cpus?: number | undefined;
  /** The `RuntimeClass` of the pod, such as one of gVisor or Kata Containers. */
  readonly runtimeClassName?: string | undefined;
  /**
   * `false` gives the pod a user namespace of its own.
   *
   * @default what the cluster does
   */
  readonly hostUsers?: boolean | undefined;
}

/** Kernels run where a command leads that carries stdin and stdout. */
export interface CommandPlacement {
  /** What kind it is. */
  readonly type: "command";
  /** The command, as a program and its arguments. The command of the launcher is added. */
  readonly command: readonly string[];
  /** Ends what the command may have left, if it did not end well. */
  readonly stop?: readonly string[] | undefined;
  /**
   * Whether bubblewrap makes the sandbox there. Otherwise it has to be in one, without a network.
   *
   * @default {false}
   */
  readonly bubblewrap?: boolean | undefined;
  /** A folder there that code works in, as of {@linkcode SshPlacement}. */
  readonly workspace?: string | undefined;
}

/** Where kernels run, other than in this machine's sandbox. */
export type Placement =
  | ContainerPlacement
  | KubernetesPlacement
  | SshPlacement
  | CommandPlacement;

const text = z.string().min(1).max(4096).refine((text) => !text.includes("\0"), "it has a NUL");
const folder = text.startsWith("/");
const name = text.regex(/^[a-z0-9][a-z0-9.-]*$/);
const image = text.refine((name) => !name.startsWith("-"), "it begins with -");

/** What a pool's template says instead. */
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
        : "the pool's template says it";
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

/** Checks a placement. */
export function parsePlacement(value: unknown, source = "The placement"): Placement {
  const parsed = placementSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new ConfigError(`${source} cannot be used:\n${problemLines(parsed.error)}`);
}
