/**
 * The commands that carry a launcher's stdin and stdout. Each is a program and its arguments; no shell of
 * this machine reads them.
 *
 * @module
 */
import { dirname } from "node:path";
import { ConfigError } from "../base/errors.ts";
import type { CommandPlacement, ContainerPlacement, Placement, SshPlacement } from "./placement.ts";

/** A command that starts a program elsewhere, and what is there. */
export interface Carrier {
  /** What it is called in messages. */
  readonly name: string;
  /** Commands of this machine that make the place, in order, before anything is run in it. */
  readonly start?: readonly StartCommand[] | undefined;
  /** Commands that find it and wait for it, in order, after those and when a host comes back to it. */
  readonly find?: readonly StartCommand[] | undefined;
  /** The command that says what has become of it. */
  readonly fate?: StartCommand | undefined;
  /** The command that starts a program there. */
  command(program: readonly string[]): readonly string[];
  /** The command that starts another one in the same place; the same where none is given. */
  reach?(program: readonly string[]): readonly string[];
  /** What a command's last line says, as a regular expression, when that place is no more. */
  readonly gone?: string;
  /** Ends what `start` has made, or else what a command may have left that did not end well. */
  readonly stop?: readonly string[] | undefined;
  /** The Python there. */
  readonly python: string;
  /** How what a Python lacks is installed there. */
  readonly install: string;
  /** The working directory of code there; `undefined` for an empty one. */
  readonly workspace: string | undefined;
  /** Whether it is this machine's workspace. */
  readonly isBound: boolean;
  /** What of this machine is mounted there; first the workspace. */
  readonly mounts?: readonly Mount[] | undefined;
  /** Whether an engine was told to bound all of a session together. */
  readonly bounds?: boolean;
  /** Whether bubblewrap makes the sandbox there; else it is one. */
  readonly usesBubblewrap: boolean;
  /** Whether it can have network interfaces, as long as nothing can be reached through them. */
  readonly mayHaveInterfaces?: boolean;
  /** How often it has to give a sign of life, where its command does not see to that: milliseconds. */
  readonly beatMs?: number;
}

/** A command that makes a place, or waits for one. */
export interface StartCommand {
  /** The program and its arguments, which may be known only when it is its turn. */
  readonly args: readonly string[];
  /** Its stdin; by default empty. */
  readonly input?: string | undefined;
  /** Judges each JSON object that it prints, until there is nothing more to wait for. */
  readonly until?: ((printed: unknown) => Seen) | undefined;
  /** Who else knows why it waits for so long. */
  readonly otherwise?: {
    readonly args: readonly string[];
    readonly read: (printed: unknown) => string | undefined;
  } | undefined;
}

/** How a place was seen: whether it can be used, is expected to, or will never be. */
export type Seen = { readonly is: "ready" } | {
  readonly is: "waiting" | "lost";
  readonly why: string;
};

/** A path of this machine that is mounted in a container. */
export interface Mount {
  readonly source: string;
  readonly target: string;
  readonly readonly?: "true";
}

/** What of a workspace code must not touch, as an engine can see to it. */
export interface MountedPaths {
  readonly readOnly: readonly string[];
  readonly hiddenFolders: readonly string[];
  readonly hiddenFiles: readonly string[];
  /** An empty folder that nobody may list, which takes the place of hidden ones. */
  readonly empty: string;
}

/** What a container is started with. */
export interface ContainerOptions {
  /** Its name. */
  readonly id: string;
  /** Whether it outlives the command that starts it. */
  readonly lasts: boolean;
  /** This machine's workspace, and what of it code must not touch. */
  readonly workspace: string;
  readonly protectedPaths: MountedPaths;
  /** The user and group that the workspace belongs to. */
  readonly owner: { readonly uid: number; readonly gid: number };
  /** What all of it may take: bytes, processes; `null` for no limit. */
  readonly memoryBytes: number | null;
  readonly processes: number | null;
  /** Whether the engine runs as an ordinary user, whose ids are others inside. */
  readonly rootless: boolean;
}

/** The Python of the image that `packaging/kernel-image` makes. */
export const IMAGE_PYTHON = "/opt/ipybox/python/bin/python3";

/** The image that is used where none is named. */
export const DEFAULT_IMAGE = "ipybox-kernel";

/** Where the workspace is in a container. */
const BOUND = "/workspace";

/** What our own processes take of the number: launcher, gateway, checker, and their threads. */
const OWN_PROCESSES = 64;

/** A container without network, rights, or a file of this machine but the workspace. */
export function containerCarrier(
  placement: ContainerPlacement,
  options: ContainerOptions,
): Carrier {
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
    ...(options.lasts ? ["--sig-proxy=false"] : []),
    ...args,
  ];
  return {
    name: type,
    command: ([program = "", ...rest]) => [...run, "--entrypoint", program, image, ...rest],
    reach: (program) => [type, "exec", "--interactive", id, ...program],
    gone: "[Nn]o such container|no container with name|is not running|already in progress",
    stop: [type, "rm", "--force", id],
    python: IMAGE_PYTHON,
    install: "add them to the image",
    workspace: isBound ? BOUND : undefined,
    isBound,
    mounts,
    bounds: true,
    usesBubblewrap: false,
  };
}

/** The workspace, and over it what code must not change or see. */
function mountsOf({ workspace, protectedPaths }: ContainerOptions): Mount[] {
  const { readOnly, hiddenFolders, hiddenFiles, empty } = protectedPaths;
  const bound = (source: string, path: string): Mount => {
    return { source, target: BOUND + path.slice(workspace.length) };
  };
  const fixed = (source: string, path: string): Mount => {
    return { ...bound(source, path), readonly: "true" };
  };
  const found = [
    ...readOnly.map((path) => [path, fixed(path, path)] as const),
    ...hiddenFiles.map((path) => [path, fixed("/dev/null", path)] as const),
    ...hiddenFolders.map((path) => [path, fixed(empty, path)] as const),
  ];
  // One mount for each path: engines refuse a second one. They order them by their depth.
  const strict = new Map(found);
  const unmountable = [...strict.keys()].find((path) => path.includes("\r"));
  if (unmountable !== undefined) {
    throw new ConfigError(
      `Cannot show ${workspace} to code in a container: engines cannot mount ` +
        `${JSON.stringify(unmountable)}, whose name has a carriage return. Rename it, or show ` +
        'code another folder: {"type": "docker", "workspace": "none"}',
    );
  }
  const pins = new Set([...strict.keys()].flatMap((path) => movable(path, workspace, strict)));
  return [
    bound(workspace, workspace),
    ...[...pins].map((path) => bound(path, path)),
    ...strict.values(),
  ];
}

/**
 * The folders that a path is in and that could be moved away with it. Something mounted on them
 * prevents that. In a folder that is read-only nothing can be moved.
 */
function movable(path: string, workspace: string, strict: ReadonlyMap<string, unknown>): string[] {
  const folders: string[] = [];
  for (let above = dirname(path); above.length > workspace.length; above = dirname(above)) {
    folders.unshift(above);
  }
  const firm = folders.findIndex((folder) => strict.has(folder));
  return firm === -1 ? folders : folders.slice(0, firm);
}

/** A mount as engines read it: fields with commas, quotes and line breaks are quoted. */
function csv(fields: Mount & { readonly type: string }): string {
  return Object.entries(fields).map(([name, value]) => {
    const field = `${name}=${value}`;
    return /[",\n\r]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field;
  }).join(",");
}

/** A machine that is reached by `ssh`, whose connection is given up after 45 s without a sign of life. */
export function sshCarrier({ host, workspace, args = [] }: SshPlacement): Carrier {
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
    // It joins its arguments, and a shell there reads them.
    command: (program) => [
      ...["ssh", ...args, ...flags, "-T", "-x", "-a", "-e", "none", "--", host],
      program.map(quoted).join(" "),
    ],
    python: "python3",
    install: "python3 -m pip install",
    workspace,
    isBound: false,
    usesBubblewrap: true,
  };
}

/** A word as any shell reads it. */
function quoted(word: string): string {
  return /^[\w/.:=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** A command that somebody else knows. */
export function commandCarrier(placement: CommandPlacement): Carrier {
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

/** Whether a placement shows this machine's workspace to code. */
export function bindsWorkspace(placement: Placement): boolean {
  switch (placement.type) {
    case "docker":
    case "podman":
      return placement.workspace !== "none";
    case "kubernetes":
    case "ssh":
    case "command":
      return false;
  }
}
