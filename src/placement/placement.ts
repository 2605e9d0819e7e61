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
export type Placement = ContainerPlacement | SshPlacement | CommandPlacement;

const text = z.string().min(1).max(4096).refine((text) => !text.includes("\0"), "it has a NUL");
const folder = text.startsWith("/");

const placementSchema: z.ZodType<Placement> = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.enum(["docker", "podman"]),
    image: text.refine((name) => !name.startsWith("-"), "it begins with -").optional(),
    workspace: z.enum(["bind", "none"]).optional(),
    cpus: z.number().positive().optional(),
    args: z.array(text).optional(),
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
