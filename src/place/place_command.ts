/**
 * The commands that forward a launcher's stdin and stdout. Each is a program and its arguments; no
 * shell on this machine interprets them.
 *
 * @module
 */
import { dirname } from "node:path";
import { ConfigError } from "../base/errors.ts";
import { shellWord } from "../base/shell_word.ts";
import { OWN_PROCESSES } from "../sandbox/limits.ts";
import type { CommandPlacement, ContainerPlacement, SshPlacement } from "./placement.ts";

/** A command that starts a program elsewhere, and facts about that place. */
export interface PlaceCommand {
  readonly name: string;
  /** Commands on this machine that create the place, in order. */
  readonly start?: readonly StartCommand[] | undefined;
  /** Commands that find it and wait for it, in order, after its creation and when a host returns to it. */
  readonly find?: readonly StartCommand[] | undefined;
  /** The command that explains why it is gone. */
  readonly fate?: StartCommand | undefined;
  /** The command that starts a program there. */
  command(program: readonly string[]): readonly string[];
  /** The command that starts another program in the same place; by default the same. */
  reach?(program: readonly string[]): readonly string[];
  /** A regular expression that matches a command's last line if the place is gone. */
  readonly gone?: string;
  /** Removes the place that `start` has created, or the remains of a failed command. */
  readonly stop?: readonly string[] | undefined;
  /**
   * Whether a durable session's place is removed whatever its other side reports: code may still
   * run.
   */
  readonly stopsDurable?: boolean;
  readonly python: string;
  /** How to install missing packages there. */
  readonly install: string;
  /** The working directory of code there; `undefined` for an empty folder. */
  readonly workspace: string | undefined;
  /** Whether it is this machine's workspace. */
  readonly isBound: boolean;
  /** This machine's paths that are mounted there; first the workspace. */
  readonly mounts?: readonly Mount[] | undefined;
  /** Whether an engine was given limits for the whole session. */
  readonly bounds?: boolean;
  /** Whether bubblewrap creates the sandbox there; otherwise the place is one. */
  readonly usesBubblewrap: boolean;
  /** Whether it may have network interfaces through which nothing can be reached. */
  readonly mayHaveInterfaces?: boolean;
  /** The interval of heartbeats, if its command does not detect lost connections: milliseconds. */
  readonly beatMs?: number;
}

/** A command that creates a place, or waits for it. */
export interface StartCommand {
  /** The program and its arguments, which may not be known before it is run. */
  readonly args: readonly string[];
  /** Its stdin; by default empty. */
  readonly input?: string | undefined;
  /** Judges each JSON object that it prints, until the outcome is clear. */
  readonly until?: ((printed: unknown) => Seen) | undefined;
  /** Another command that may explain why it takes so long. */
  readonly otherwise?: {
    readonly args: readonly string[];
    readonly read: (printed: unknown) => string | undefined;
  } | undefined;
}

/** The state of a place: it can be used, may become usable, or never will. */
export type Seen = { readonly is: "ready" } | {
  readonly is: "waiting" | "lost";
  readonly why: string;
};

/** A path of this machine that is mounted in a container. */
interface Mount {
  readonly source: string;
  readonly target: string;
  readonly readonly?: "true";
}

interface ContainerOptions {
  readonly id: string;
  /** Whether it outlives the command that starts it. */
  readonly isDurable: boolean;
  /** This machine's workspace. */
  readonly workspace: string;
  /**
   * The paths in it that code must not change or see, each with the read-only path that it sees
   * there.
   */
  readonly protectedPaths: ReadonlyMap<string, string>;
  /** The user and group that the workspace belongs to. */
  readonly owner: { readonly uid: number; readonly gid: number };
  /** The limits of the whole session: bytes, processes; `null` for none. */
  readonly memoryBytes: number | null;
  readonly processes: number | null;
  /** Whether the engine runs as an ordinary user, whose ids differ inside. */
  readonly rootless: boolean;
}

/** The Python of the image that `packaging/kernel-image` builds. */
export const IMAGE_PYTHON = "/opt/ipybox/python/bin/python3";

export const DEFAULT_IMAGE = "ipybox-kernel";

/** Where the workspace is in a container. */
const BOUND = "/workspace";

/** A container without network, capabilities, or files of this machine except the workspace. */
export function containerCommand(
  placement: ContainerPlacement,
  options: ContainerOptions,
): PlaceCommand {
  const { type, image = DEFAULT_IMAGE, workspace = "bind", cpus = 2, args = [] } = placement;
  const { id, owner, memoryBytes, processes, rootless } = options;
  const isBound = workspace === "bind";
  const mounts = isBound ? mountsOf(options) : undefined;
  const mounting = (mounts ?? []).flatMap((mount) => ["--mount", csv({ type: "bind", ...mount })]);
  const run = [
    ...[type, "run", "--rm", "--interactive", "--name", id, "--hostname", "ipybox"],
    ...[
      "--label",
      `ipybox.workspace=${options.workspace}`,
      "--log-driver",
      "none",
      "--pull",
      "never",
    ],
    ...["--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"],
    ...["--read-only", "--tmpfs", "/tmp:rw,exec,nosuid,nodev,mode=1777", "--workdir", "/"],
    ...["--cpus", String(cpus)],
    ...(memoryBytes === null ? [] : ["--memory", String(memoryBytes)]),
    ...(processes === null ? [] : ["--pids-limit", String(processes + OWN_PROCESSES)]),
    ...(isBound ? ["--user", `${owner.uid}:${owner.gid}`, ...mounting] : []),
    ...(isBound && type === "podman" && rootless ? ["--userns", "keep-id"] : []),
    ...(options.isDurable ? ["--sig-proxy=false"] : []),
    ...args,
  ];
  return {
    name: type,
    command: ([program = "", ...rest]) => [...run, "--entrypoint", program, image, ...rest],
    reach: (program) => [type, "exec", "--interactive", id, ...program],
    gone: "[Nn]o such container|no container with name|is not running|already in progress",
    stop: [type, "rm", "--force", ...(type === "podman" ? ["--time", "0"] : []), id],
    stopsDurable: true,
    python: IMAGE_PYTHON,
    install: "add them to the image",
    workspace: isBound ? BOUND : undefined,
    isBound,
    mounts,
    bounds: true,
    usesBubblewrap: false,
  };
}

/** The workspace, and on top of it mounts for the paths that code must not change or see. */
function mountsOf({ workspace, protectedPaths }: ContainerOptions): Mount[] {
  const bound = (source: string, path: string): Mount => {
    return { source, target: BOUND + path.slice(workspace.length) };
  };
  const unmountable = [...protectedPaths.keys()].find((path) => path.includes("\r"));
  if (unmountable !== undefined) {
    throw new ConfigError(
      `Cannot show ${workspace} to code in a container: engines cannot mount ` +
        `${JSON.stringify(unmountable)}, whose name has a carriage return. Rename it, or show ` +
        'code another folder: {"type": "docker", "workspace": "none"}',
    );
  }
  const pins = [...protectedPaths.keys()].flatMap((path) =>
    movable(path, workspace, protectedPaths)
  );
  // One mount for each path, because engines reject a second one. They order mounts by depth.
  return [
    bound(workspace, workspace),
    ...[...new Set(pins)].map((path) => bound(path, path)),
    ...[...protectedPaths].map(([path, source]): Mount => ({
      ...bound(source, path),
      readonly: "true",
    })),
  ];
}

/** The folders above a path that code could move away with it. A mount on them prevents that. */
function movable(path: string, workspace: string, firm: ReadonlyMap<string, unknown>): string[] {
  const folders: string[] = [];
  for (let above = dirname(path); above.length > workspace.length; above = dirname(above)) {
    folders.unshift(above);
  }
  const first = folders.findIndex((folder) => firm.has(folder));
  return first === -1 ? folders : folders.slice(0, first);
}

/** A mount in the engines' syntax: fields with commas, quotes and line breaks are quoted. */
function csv(fields: Mount & { readonly type: string }): string {
  return Object.entries(fields).map(([name, value]) => {
    const field = `${name}=${value}`;
    return /[",\n\r]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field;
  }).join(",");
}

/** A machine that `ssh` reaches. The connection is closed after 45 silent seconds. */
export function sshCommand({ host, workspace, args = [] }: SshPlacement): PlaceCommand {
  const options = {
    BatchMode: "yes",
    ClearAllForwardings: "yes",
    ConnectTimeout: "20",
    ServerAliveInterval: "15",
    ServerAliveCountMax: "3",
  };
  const flags = Object.entries(options).flatMap(([name, value]) => ["-o", `${name}=${value}`]);
  return {
    name: `ssh ${host}`,
    // ssh joins its arguments, and a shell there parses them.
    command: (program) => [
      ...["ssh", ...args, ...flags, "-T", "-x", "-a", "-e", "none", "--", host],
      program.map(shellWord).join(" "),
    ],
    python: "python3",
    install: "python3 -m pip install",
    workspace,
    isBound: false,
    usesBubblewrap: true,
  };
}

/** A command of the user's choice. */
export function givenCommand(placement: CommandPlacement): PlaceCommand {
  const { command, stop, bubblewrap = false, workspace } = placement;
  return {
    name: command[0] ?? "",
    command: (program) => [...command, ...program],
    stop,
    python: "python3",
    install: "python3 -m pip install",
    workspace,
    isBound: false,
    usesBubblewrap: bubblewrap,
  };
}
