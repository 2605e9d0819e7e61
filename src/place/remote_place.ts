/**
 * The place of kernels that a placement leads to.
 *
 * @module
 */
import { asset } from "../assets/mod.ts";
import { ConfigError, EnvironmentNotReadyError, SandboxUnavailableError } from "../base/errors.ts";
import { isAllGranted } from "../base/permission.ts";
import { type Logger, silentLogger } from "../base/log.ts";
import { randomToken } from "../base/tokens.ts";
import { HeldFolder } from "../files/private_folder.ts";
import { lstatIfPresent } from "../files/safe.ts";
import { sha256 } from "../json/digest.ts";
import { Boot, bootCommand, type Facts, IMAGE_PROGRAMS, type SeenMounts } from "./boot.ts";
import {
  containerCommand,
  DEFAULT_IMAGE,
  givenCommand,
  IMAGE_PYTHON,
  type PlaceCommand,
  sshCommand,
} from "./place_command.ts";
import { kubernetesCommand, kubernetesFix } from "./kubernetes.ts";
import {
  bindsWorkspace,
  type ContainerPlacement,
  parsePlacement,
  type Placement,
} from "./placement.ts";
import { type ExitStatus, ManagedProcess } from "../process/managed_process.ts";
import { namedProgram, programOf } from "../process/program.ts";
import { hasLandlock, type SelfTestReport } from "../sandbox/selftest.ts";
import { isInside } from "../process/trusted_path.ts";
import { type EffectiveLimits, effectiveLimits, rlimits } from "../sandbox/limits.ts";
import { requireSandbox, workspaceView } from "../sandbox/sandbox.ts";
import { syscallFilter } from "../sandbox/syscall_filter.ts";
import { hostPython, probeOf, SYSTEM, type View } from "../sandbox/wall.ts";
import { admitWorkspace } from "../sandbox/workspace.ts";
import {
  endPlace,
  fateOf,
  installed,
  makePlace,
  type StepOptions,
  trustedEnvironment,
} from "./lifecycle.ts";
import { howEnded, type LauncherProcess } from "./launch.ts";
import type { DurableSession, KernelGatewayOptions, Place, PlaceStart } from "./place.ts";
import { launchDurable } from "./local_place.ts";
import { programs, SessionPaths } from "./session_folder.ts";
import type { Reach, SupervisedLauncher } from "./supervisor.ts";

/** Starts a launcher in the place that a placement leads to. */
export async function remotePlace(
  parts: AsyncDisposableStack,
  { options, deadline, canaryPort, session }: PlaceStart,
): Promise<Place> {
  const { sandbox = true, log = silentLogger, workspace } = options;
  const placement = parsePlacement(options.placement);
  refuseLocal(options);
  const isWalled = sandbox !== false;
  const limits = effectiveLimits(options.limits, { sandboxed: true });
  const folder = parts.use(await HeldFolder.create({ log }));
  const canary = `${folder.path}/canary`;
  await Deno.writeTextFile(canary, "not needed there", { mode: 0o600 });
  const stubs = `${folder.path}/stubs`;
  await Deno.mkdir(stubs, { mode: 0o700 });
  const times = session && {
    idle_seconds: session.idleMs / 1000 + MARGIN_SECONDS,
    max_seconds: session.maxMs / 1000 + MARGIN_SECONDS,
  };
  const isDurable = session !== undefined;
  const hostPrivate = folder.path;
  const place = await placeCommandOf(placement, { options, hostPrivate, limits, times });
  const python = options.python ?? place.python;
  if (isWalled && place.usesBubblewrap) refuseReplaceable(python, place);
  const fix = (text: string) => fixOf(placement, text);
  const process = await RemoteProcess.start(parts, place, {
    ...{ log, python, workspace, deadline, isDurable, fix },
  });
  const boot = new Boot(process.pipes, { programs: programs(), deadline });
  const facts = await boot.begin() ?? await process.failed(deadline);
  const { mayHaveInterfaces = false } = place;
  const leavesNetwork = isWalled && mayHaveInterfaces;
  requireFit(facts, { placement, place, python, isWalled });
  const unbounded = unboundedIn(facts, place, limits);
  if (unbounded.length > 0) {
    log.warn(
      `${place.name} does not bound the ${
        unbounded.join(" and the ")
      } of a session as a whole, although ` +
        "ipybox requested it: limits apply to single processes. Check its support for control groups",
    );
  }
  const paths = new SessionPaths(
    `/tmp/ipybox.${randomToken().slice(0, 16)}`,
    facts.has ? IMAGE_PROGRAMS : undefined,
  );
  const inner = place.workspace ?? `${paths.session}/workspace`;
  const bwrap = isWalled && place.usesBubblewrap ? facts.bwrap : null;
  const modules = `${paths.session}/modules`;
  const filter = isWalled ? filterFor(facts) : new Uint8Array(0);
  // Other users there see the session's folder before this one is made.
  const own = `${paths.root}.${randomToken().slice(0, 16)}`;
  const there = { id: sessionId(), folder: own, socket: `${own}/socket`, secret: randomToken() };
  await boot.finish({
    root: paths.root,
    mounts: isWalled ? await mountsSeen(place) : null,
    folders: [
      ...paths.empty,
      modules,
      ...place.isBound || (bwrap !== null && place.workspace !== undefined) ? [] : [inner],
    ],
    programs: facts.has ? IMAGE_PROGRAMS : paths.session,
    probe: {
      ...probeOf({
        files: [canary, ...place.isBound ? [`${inner}/.ipybox/code-ran`] : []],
        port: canaryPort,
      }),
      elsewhere: true,
      interfaces: mayHaveInterfaces,
      sandboxed: isWalled,
      hasOwnTmp: bwrap !== null,
      ...(leavesNetwork ? { addresses: addressesOf(facts) } : {}),
    },
    leavesNetwork,
    filter,
    wall: bwrap === null ? null : {
      bwrap,
      show: SYSTEM.linux ?? [],
      write: [paths.session],
      keep: [paths.launcher, paths.runtime],
      ...{ mask: [], real: [], identities: [], devices: [], environment: {} },
      workspace: place.workspace ?? null,
      filter: filter.toHex(),
      ...{
        network: "none",
        proc: "own",
        namespaces: false,
        tmp: paths.temporary,
        home: null,
        shm: null,
      },
    },
    supervisor: times === undefined ? null : { ...there, ...times },
  }, facts);
  let supervised: SupervisedLauncher | undefined;
  if (session !== undefined) {
    if (!await boot.held()) await process.failed(deadline);
    supervised = await superviseRemote(session, {
      place,
      python,
      there,
      folder,
      log,
      workspace,
    });
    const leaving = process.leave();
    parts.defer(() => leaving);
  }
  if (!isWalled) {
    log.warn(`No sandbox: executed code can do everything that ${place.name} can do`);
  }
  return {
    paths,
    workspace: inner,
    python: { executable: facts.python, checker: facts.checker ?? undefined, variables: {} },
    environment: {},
    path: "/usr/local/bin:/usr/bin:/bin",
    copied: {
      stubs,
      ...(place.isBound ? {} : {
        modules: {
          here: `${workspace}/mcptools`,
          there: modules,
          within: "mcptools",
        },
      }),
    },
    inherit: [],
    limits,
    // The system counts all processes of a user, so if the engine limits their number, rlimits do
    // not.
    rlimits: rlimits(limits, bwrap !== null || unbounded.includes("processes")),
    sandboxed: isWalled,
    hasOwnTmp: bwrap !== null,
    exposesPrograms: bwrap === null && !facts.has,
    process: supervised ?? process,
    supervised,
    begin: () => Promise.resolve(supervised?.begin([])),
    judge: (report) => {
      if (isWalled) requireSandbox(report, { isRemote: true });
      if (isDurable && isWalled && bwrap === null) requireApart(report, place.name);
    },
  };
}

/**
 * Refuses a durable session in a container without Landlock. The program that reconnects it starts beside
 * code, as the same user and without the system call filter: code could trace it, and take its place.
 */
export function requireApart(
  report: Pick<SelfTestReport, "platform" | "landlock">,
  where: string,
): void {
  if (report.platform !== "linux" || hasLandlock(report)) return;
  throw new SandboxUnavailableError(
    `A durable session cannot be protected from code at ${where} without Landlock`,
    "Use Linux 5.19 or later there, with `landlock` in its `lsm=` and allowed by the engine's seccomp " +
      "profile, or a session that is not durable",
  );
}

/** Added to time limits there, so that the supervisor here applies its own first. */
const MARGIN_SECONDS = 60;

interface RemoteSupervisorOptions {
  readonly place: PlaceCommand;
  readonly python: string;
  /** The socket and the secret of the supervisor there. */
  readonly there: Pick<Reach, "socket" | "secret">;
  readonly folder: HeldFolder;
  readonly log: Logger;
  readonly workspace: string;
}

/** Starts a supervisor here, which reaches the one there. */
async function superviseRemote(
  session: DurableSession,
  { place, python, there, folder, log, workspace }: RemoteSupervisorOptions,
): Promise<SupervisedLauncher> {
  const untrusted = [workspace];
  const located = async ([program = "", ...args]: readonly string[]) => {
    return [await programOf(program, { untrusted }), ...args];
  };
  const { start, command, reach = command, stop, stopsDurable = false, gone = null } = place;
  const own = session.python ?? await programOf("python3", { untrusted });
  return await launchDurable(session, {
    command: [],
    reach: {
      command: await located(reach(bootCommand(python))),
      program: asset("launcher/attach.py"),
      socket: there.socket,
      secret: there.secret,
      stop: stop === undefined ? null : await located(stop),
      made: start !== undefined || stopsDurable,
      gone,
      patience_seconds: session.idleMs / 1000 + MARGIN_SECONDS,
    },
    cwd: "/",
    env: await trustedEnvironment(untrusted),
    python: namedProgram(own),
    hostPrivate: folder.path,
    held: folder,
    log,
    where: place.name,
  });
}

/**
 * The limits for the whole session that an engine was given but does not apply, as can happen if it
 * is rootless.
 */
function unboundedIn(facts: Facts, place: PlaceCommand, limits: EffectiveLimits): string[] {
  if (place.bounds !== true) return [];
  const wanted = [
    ...(limits.memoryBytes === null ? [] : ["memory"] as const),
    ...(limits.processes === null ? [] : ["processes"] as const),
  ];
  return wanted.filter((name) => !facts.bounds.includes(name));
}

/** Rejects a Python there that code could replace: it starts each session, outside its sandbox. */
function refuseReplaceable(python: string, { name, workspace }: PlaceCommand): void {
  if (workspace === undefined || !isInside(python, workspace)) return;
  throw new ConfigError(
    `Cannot use ${python} at ${name}: code could replace it, as it is in the workspace ${workspace}. ` +
      "Use an environment in another folder",
  );
}

/** Rejects options that only apply to this machine. */
function refuseLocal({ sandbox, packages = [] }: KernelGatewayOptions): void {
  const given = typeof sandbox === "object" ? sandbox : {};
  const local = (["config", "allowUnsafe", "project", "devices"] as const).find((name) =>
    given[name]
  );
  if (local !== undefined) {
    throw new ConfigError(
      `Cannot use sandbox.${local} with a placement: it applies to this machine`,
    );
  }
  if (packages.length > 0) {
    throw new ConfigError("Cannot use packages of this machine with a placement");
  }
}

interface PlaceCommandOptions {
  readonly options: KernelGatewayOptions;
  readonly hostPrivate: string;
  readonly limits: EffectiveLimits;
  /** How long it waits while disconnected, and how long it lasts at most, if it is durable. */
  readonly times: { readonly idle_seconds: number; readonly max_seconds: number } | undefined;
}

async function placeCommandOf(
  placement: Placement,
  options: PlaceCommandOptions,
): Promise<PlaceCommand> {
  switch (placement.type) {
    case "docker":
    case "podman":
      return await containerOf(placement, options);
    case "kubernetes":
      return kubernetesCommand(placement, {
        id: sessionId(),
        workspace: options.options.workspace,
        python: options.options.python ?? IMAGE_PYTHON,
        memoryBytes: podMemory(options.options.limits),
        patienceSeconds: options.times?.idle_seconds,
        maxSeconds: options.times && options.times.max_seconds + MARGIN_SECONDS,
      });
    case "ssh":
      return sshCommand(placement);
    case "command":
      return givenCommand(placement);
  }
}

function sessionId(): string {
  return `ipybox-${randomToken().slice(0, 16)}`;
}

/** The default memory of a pod, which its node reserves: enough for most sessions. */
const POD_MEMORY = 2 * 1024 ** 3;

function podMemory(limits: KernelGatewayOptions["limits"]): number | null {
  return limits === false
    ? null
    : limits?.memoryBytes === undefined
    ? POD_MEMORY
    : limits.memoryBytes;
}

async function containerOf(
  placement: ContainerPlacement,
  { options, hostPrivate, limits, times }: PlaceCommandOptions,
): Promise<PlaceCommand> {
  const { log = silentLogger, sandbox } = options;
  const isBound = bindsWorkspace(placement);
  const workspace = isBound ? await Deno.realPath(options.workspace) : options.workspace;
  if (isBound) await admitWorkspace(workspace, hostPrivate);
  const view = isBound
    ? await workspaceView(workspace, {
      ...(typeof sandbox === "object" ? sandbox : {}),
      log,
      python: await hostPython(workspace),
    })
    : { keep: [], mask: [] };
  const protectedPaths = await mountedPaths(workspace, view, hostPrivate);
  const info = isBound ? await Deno.stat(workspace) : undefined;
  const owner = { uid: info?.uid ?? 0, gid: info?.gid ?? 0 };
  if (isBound && owner.uid === 0 && Deno.build.os === "linux") {
    throw new ConfigError(
      `Cannot use ${workspace} as workspace in a container: it belongs to root, and code must not run as root. ` +
        'Give it to an ordinary user, or hide it from code: {"type": "docker", "workspace": "none"}',
    );
  }
  return containerCommand(placement, {
    id: sessionId(),
    ...{ workspace, protectedPaths, owner, isDurable: times !== undefined },
    memoryBytes: limits.memoryBytes,
    processes: limits.processes,
    rootless: Deno.build.os === "linux" && Deno.uid() !== 0,
  });
}

/** The place's mounts as they must look from inside; `null` if that cannot be determined. */
async function mountsSeen({ mounts = [] }: PlaceCommand): Promise<SeenMounts | null> {
  // Deno lets only programs with all permissions read this file.
  if (mounts.length === 0 || Deno.build.os !== "linux" || !isAllGranted()) return null;
  const kernel = await Deno.readTextFile("/proc/sys/kernel/random/boot_id");
  const files = await Promise.all(mounts.map(async ({ source, target }) => {
    const { dev, ino } = await Deno.lstat(source);
    return [target, dev, ino ?? 0] as const;
  }));
  return { kernel, files };
}

/** The protected and masked paths of a workspace, for engines. */
async function mountedPaths(
  workspace: string,
  { keep, mask }: Pick<View, "keep" | "mask">,
  hostPrivate: string,
): Promise<ReadonlyMap<string, string>> {
  const inside = (path: string) => path !== workspace && isInside(path, workspace);
  const empty = `${hostPrivate}/empty`; // closed to everybody
  await Deno.mkdir(empty);
  await Deno.chmod(empty, 0);
  const mounted = new Map(keep.filter(inside).map((path) => [path, path]));
  for (const path of mask.filter(inside)) {
    const info = await lstatIfPresent(path);
    if (info !== undefined) mounted.set(path, info.isDirectory ? empty : "/dev/null");
  }
  return mounted;
}

/** The syscall filter for the processor there; empty for unknown ones, which the self-test reports. */
function filterFor({ machine }: Facts): Uint8Array<ArrayBuffer> {
  const architecture = machine === "arm64" ? "aarch64" : machine;
  return syscallFilter({ namespaces: false, unixSockets: true }, architecture) ?? new Uint8Array(0);
}

/** Addresses that must not be reachable there, and that always answer if they are. */
function addressesOf({ apiServer, node }: Facts): (readonly [host: string, port: number])[] {
  const [host = "", port = 0] = apiServer ?? [];
  return [
    ...[["1.1.1.1", 443], ["8.8.8.8", 53]] as const, // the internet
    ...[["2606:4700:4700::1111", 443], ["2001:4860:4860::8888", 53]] as const,
    ...[["169.254.169.254", 80], ["168.63.129.16", 80]] as const, // metadata
    ...[["fd00:ec2::254", 80], ["fd20:ce::254", 80]] as const,
    ["169.254.20.10", 53], // name servers on nodes
    ...(apiServer === null ? [] : [
      [host, port],
      [host.replace(/\.\d+$/, ".10").replace(/:[^:]*$/, ":a"), 53], // the usual name server of clusters
    ] as const),
    ...(node === null ? [] : [[node, 10250] as const]), // its kubelet
  ];
}

/** Rejects a place that lacks something. */
function requireFit(
  facts: Facts,
  { placement, place, python, isWalled }: {
    readonly placement: Placement;
    readonly place: PlaceCommand;
    readonly python: string;
    readonly isWalled: boolean;
  },
): void {
  const { name, install } = place;
  const { missing, version: [major, minor], requirements, bwrap } = facts;
  if (major !== 3 || minor < 10) {
    throw new EnvironmentNotReadyError(
      `${python} at ${name} is Python ${major}.${minor}, but 3.10 or later is needed`,
      "Name another one: --python PATH",
    );
  }
  if (missing.length > 0) {
    throw new EnvironmentNotReadyError(
      `${python} at ${name} lacks ${missing.join(", ")}`,
      `${install} ${missing.join(" ")}`,
    );
  }
  if (requirements !== null && requirements !== sha256(asset("environment/requirements.txt"))) {
    const image = "image" in placement && placement.image || DEFAULT_IMAGE;
    throw new EnvironmentNotReadyError(
      `The image ${image} was built for another version of ipybox`,
      BUILD,
    );
  }
  if (isWalled && place.usesBubblewrap && bwrap === null) {
    throw new SandboxUnavailableError(
      `bubblewrap is not installed at ${name}, so code would run there without a sandbox`,
      "Install it there (sudo apt-get install bubblewrap), or run without a sandbox: --no-sandbox",
    );
  }
}

const BUILD =
  `In a checkout of ipybox: docker build --file packaging/kernel-image/Dockerfile --tag ${DEFAULT_IMAGE} .`;

/** The time limit for a command to exit after it has left the launcher to a supervisor. */
const LEAVE_MS = 500;

/** The command that carries a launcher. How it exits says nothing about the launcher's exit. */
class RemoteProcess implements LauncherProcess {
  readonly #process: ManagedProcess;
  readonly #place: PlaceCommand;
  readonly #options: StepOptions;
  #end = "";
  #stopping: Promise<ExitStatus> | undefined;

  private constructor(process: ManagedProcess, place: PlaceCommand, options: StepOptions) {
    this.#process = process;
    this.#place = place;
    this.#options = options;
  }

  /** Creates the place, and starts the command that leads there. */
  static async start(
    parts: AsyncDisposableStack,
    place: PlaceCommand,
    { log, python, workspace, deadline, isDurable, fix }: {
      readonly log: Logger;
      readonly python: string;
      readonly workspace: string;
      readonly deadline: AbortSignal;
      /** Whether the launcher outlives the command. */
      readonly isDurable: boolean;
      /** The fix for an error message of a command. */
      readonly fix: (text: string) => string;
    },
  ): Promise<RemoteProcess> {
    const untrusted = [workspace];
    await using made = new AsyncDisposableStack();
    const steps = { log, untrusted, fix };
    const [first = ""] = place.start?.[0]?.args ?? [];
    if (first !== "") {
      await installed(first, untrusted);
      // Removes what it created. The original error is reported, so failures here are not.
      made.defer(() => endPlace(place, { ...steps, log: silentLogger }));
    }
    await makePlace(place, { ...steps, deadline });
    const [program = "", ...args] = place.command(bootCommand(python));
    const command = await installed(program, untrusted);
    deadline.throwIfAborted();
    const process = ManagedProcess.spawn({
      command,
      args,
      env: await trustedEnvironment(untrusted),
      onStderr: (line) => log.debug(`${place.name}: ${line}`),
      ...(isDurable ? { inputGraceMs: LEAVE_MS } : {}),
    });
    made.move();
    const remote = new RemoteProcess(process, place, steps);
    parts.defer(async () => void await remote.stop());
    return remote;
  }

  get where(): string {
    return this.#place.name;
  }

  get beatMs(): number | undefined {
    return this.#place.beatMs;
  }

  get pid(): number {
    return this.#process.pid;
  }

  get pipes(): ManagedProcess["pipes"] {
    return this.#process.pipes;
  }

  get stderrTail(): string {
    return this.#process.stderrTail + this.#end;
  }

  stop(): Promise<ExitStatus> {
    return this.#stopping ??= this.#stop();
  }

  /** Ends the command, but not the processes that it has started. */
  async leave(): Promise<void> {
    await (this.#stopping ??= this.#process.stop());
  }

  async #stop(): Promise<ExitStatus> {
    const exit = await this.#process.stop();
    if (exit.exitCode !== 0) {
      this.#end = `${this.#place.name} ${howEnded({ ...exit, stderrTail: "" })}\n`;
    }
    const fate = exit.exitCode === 0 ? undefined : await fateOf(this.#place, this.#options);
    if (fate !== undefined) this.#end += `${this.#place.name}: ${fate}\n`;
    // It may have exited before its child processes: engines have another command to end those.
    if (exit.exitCode !== 0 || this.#place.start !== undefined) {
      await endPlace(this.#place, this.#options);
    }
    return { exitCode: null, signal: null };
  }

  /** Reports why the command ended before anything answered. */
  async failed(deadline: AbortSignal): Promise<never> {
    deadline.throwIfAborted();
    await this.stop();
    const text = this.stderrTail.trim();
    // Text from another machine must not look like a line of ours.
    const said = text.replaceAll("\n", "\n  ") || "it ended without a message";
    throw new EnvironmentNotReadyError(
      `Cannot start a kernel with ${this.#place.name}: ${said}`,
      this.#options.fix(text),
    );
  }
}

/** The fix for a command that ended before anything answered. */
function fixOf(placement: Placement, text: string): string {
  switch (placement.type) {
    case "docker":
    case "podman":
      if (/No such image|Unable to find image|image not known/i.test(text)) return BUILD;
      if (/Cannot connect|daemon running/i.test(text)) {
        return `Start the engine, and try: ${placement.type} info`;
      }
      if (/executable file not found|no such file or directory/i.test(text)) {
        return "Use an image that has Python at this path, or name its path: --python PATH";
      }
      return `See what it says: ${placement.type} info`;
    case "kubernetes":
      return kubernetesFix(text);
    case "ssh":
      if (/not found|No such file/i.test(text)) {
        return "Install Python 3.10 or later there, or name its path there: --python PATH";
      }
      return `Make sure that this works without a prompt: ssh ${placement.host} true`;
    case "command":
      return "Try the command in a terminal: it must run the program that is added to it";
  }
}
