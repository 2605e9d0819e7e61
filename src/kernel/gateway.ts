import { basename } from "node:path";
import { fill } from "../base/bytes.ts";
import { GatewayStartError, type ProcessEvidence } from "../base/errors.ts";
import { silentLogger } from "../base/log.ts";
import { requirePositive } from "../base/numbers.ts";
import { abortable, allDone, anySignal, onAbort } from "../base/signals.ts";
import { stage } from "../base/stages.ts";
import type { ByteStream } from "../base/streams.ts";
import { randomToken } from "../base/tokens.ts";
import { LinkPort } from "../link/link.ts";
import { programsOf } from "../sandbox/installation.ts";
import type { EffectiveLimits } from "../sandbox/limits.ts";
import { hasLandlock } from "../sandbox/selftest.ts";
import { type CopiedFolders, type CopyFolder, folderCopier } from "../place/copied_folders.ts";
import type { CheckerProcess } from "./gateway_connection.ts";
import {
  type Launched,
  type LauncherProcess,
  linkTo,
  untilReady,
  untilUp,
} from "../place/launch.ts";
import type { DurableSession, KernelGatewayOptions, Place } from "../place/place.ts";
import { remotePlace } from "../place/remote_place.ts";
import { localPlace } from "../place/local_place.ts";
import { KERNEL_FOLDERS } from "../place/session_folder.ts";
import { WorkspaceFiles } from "../place/workspace_files.ts";
import type { SupervisedLauncher } from "../place/supervisor.ts";

/** The time limit for a gateway to start, and for a kernel. */
export const START_TIMEOUT_MS = 60_000;

/**
 * A running Jupyter Kernel Gateway, by default in the sandbox. Disposing it also ends all its
 * kernels and everything that they started.
 *
 * Any Jupyter client can use it at {@linkcode url} with {@linkcode token}.
 *
 * @example
 * ```ts
 * import { KernelGateway } from "@ipybox/ipybox/kernel";
 *
 * await using gateway = await KernelGateway.start({
 *   python: "/usr/bin/python3",
 *   workspace: "/tmp/workspace",
 * });
 * const headers = { authorization: `token ${gateway.token}` };
 * const answer = await fetch(new URL("api/kernelspecs", gateway.url), { headers });
 * console.error(await answer.json());
 * ```
 */
export class KernelGateway implements AsyncDisposable {
  /** Its URL, on a loopback address. */
  readonly url: URL;
  /** The token to send as `Authorization: token …`. */
  readonly token: string;
  /** The folder in which each of its kernels has its home directory. */
  readonly sessionDir: string;
  /** Whether its kernels run in the sandbox. */
  readonly sandboxed: boolean;
  /**
   * Whether code in one kernel is kept from tracing another one, and from changing the programs that it
   * runs; never without the sandbox.
   */
  readonly kernelsApart: boolean;
  /** The limits of one process of the executed code; `null` for no limit. */
  readonly limits: EffectiveLimits;
  /** Resolves once the gateway has exited, for whatever reason; never rejects. */
  readonly exited: Promise<ProcessEvidence>;

  readonly #parts: AsyncDisposableStack;
  readonly #running: Running;
  #disposing: Promise<void> | undefined;

  private constructor(parts: AsyncDisposableStack, running: Running) {
    const { facts, launched, port } = running;
    this.#parts = parts;
    this.#running = running;
    this.url = new URL(`http://127.0.0.1:${port.number}/`);
    this.token = facts.token;
    this.sessionDir = facts.sessionDir;
    this.sandboxed = facts.sandboxed;
    this.kernelsApart = facts.kernelsApart;
    this.limits = facts.limits;
    this.exited = launched.exited;
  }

  /** The last part of the stderr of the gateway and its kernels. */
  get stderrTail(): string {
    return this.#running.launched.process.stderrTail;
  }

  /**
   * Starts a gateway and resolves once it answers requests and, in the sandbox, once a test from
   * inside has shown that the sandbox holds.
   *
   * @param options The Python to use, and where and how to run it.
   * @returns The running gateway.
   * @throws {EnvironmentNotReadyError} The Python is missing or lacks packages.
   * @throws {SandboxUnavailableError} The sandbox does not start or does not hold.
   * @throws {ConfigError} The workspace or the sandbox's configuration cannot be used.
   * @throws {GatewayStartError} The gateway ended or did not answer in time.
   * @throws {RangeError} A time limit is not positive.
   */
  static async start(options: KernelGatewayOptions): Promise<KernelGateway> {
    requirePositive(options, ["startTimeoutMs"]);
    return await KernelGateway.#open(options, (attempt) => startIn(attempt, options));
  }

  /** @internal Starts one that outlives this process. */
  static async startDurable(
    options: KernelGatewayOptions,
    session: DurableSession,
  ): Promise<KernelGateway> {
    return await KernelGateway.#open(options, (attempt) => startIn(attempt, options, session));
  }

  /** @internal Attaches to one that another process has started. */
  static async attach(
    options: AttachOptions,
    launcher: SupervisedLauncher,
    facts: GatewayFacts,
  ): Promise<KernelGateway> {
    return await KernelGateway.#open(
      options,
      (attempt) => attachIn(attempt, { options, launcher, facts }),
    );
  }

  static async #open(
    { startTimeoutMs = START_TIMEOUT_MS, signal }: AttachOptions,
    open: (attempt: Attempt) => Promise<Running>,
  ): Promise<KernelGateway> {
    const timeout = AbortSignal.timeout(startTimeoutMs);
    await using parts = new AsyncDisposableStack();
    const attempt: Attempt = { parts, deadline: anySignal(timeout, signal) };
    try {
      const running = await open(attempt);
      return new KernelGateway(parts.move(), running);
    } catch (error) {
      if (error !== timeout.reason || !timeout.aborted) throw error;
      throw new GatewayStartError(
        `The kernel gateway did not answer within ${startTimeoutMs / 1000} s. If this machine is ` +
          "slow or busy, try again (programs: increase startTimeoutMs); otherwise run `ipybox doctor`",
        { exitCode: null, signal: null, stderrTail: attempt.process?.stderrTail ?? "" },
        { cause: error },
      );
    }
  }

  /** @internal Starts a type checker beside the kernels, with a folder for its stubs. */
  openChecker(): CheckerProcess | undefined {
    const { launched: { link }, facts: { stubs, hasChecker, copied }, copy } = this.#running;
    const stream = hasChecker ? link.startProgram("checker") : undefined;
    if (stream === undefined) return undefined;
    const here = Deno.makeTempDirSync({ dir: copied?.stubs ?? stubs });
    if (copied === undefined) return { stream, stubs: here };
    const there = `${stubs}/${basename(here)}`;
    return {
      stream,
      stubs: here,
      remote: { folder: there, publish: () => copy({ here, there }) },
    };
  }

  /** @internal Copies generated modules to the kernels, if those do not see the workspace. */
  async sync(isChanged?: boolean): Promise<void> {
    const { facts: { copied }, copy } = this.#running;
    if (copied?.modules !== undefined) await copy(copied.modules, isChanged);
  }

  /** @internal Starts a program that reads or writes a file of the workspace, beside the kernels. */
  openFile(): ByteStream | undefined {
    return this.#running.launched.link.startProgram("file");
  }

  /** @internal Stores facts for the next host; only a durable gateway can. */
  keep(kept: Readonly<Record<string, unknown>>): void {
    const { launcher, facts } = this.#running;
    launcher?.keep({ ...kept, gateway: facts });
  }

  /** @internal Leaves a durable gateway to another host. */
  async leave(): Promise<void> {
    await this.#running.launcher?.leave();
    await this[Symbol.asyncDispose]();
  }

  /** Ends the gateway, its kernels and all they started, and removes the session's folder. */
  async [Symbol.asyncDispose](): Promise<void> {
    using _stage = stage("end the gateway");
    await (this.#disposing ??= this.#parts.disposeAsync());
    await this.exited; // then its clients report the end
  }
}

/** The facts about a gateway that another host needs. */
export interface GatewayFacts {
  readonly token: string;
  readonly sessionDir: string;
  readonly stubs: string;
  readonly hasChecker: boolean;
  readonly sandboxed: boolean;
  readonly kernelsApart: boolean;
  readonly limits: EffectiveLimits;
  /** The folders to copy to its kernels. */
  readonly copied?: CopiedFolders | undefined;
}

/** Options of a gateway that already runs. */
type AttachOptions = Pick<KernelGatewayOptions, "kernelDoor" | "startTimeoutMs" | "signal" | "log">;

/** A start or an attachment under way. */
interface Attempt {
  /** Undoes it. */
  readonly parts: AsyncDisposableStack;
  readonly deadline: AbortSignal;
  /** The launcher, as soon as it is known. */
  process?: LauncherProcess;
}

/** A gateway that answers. */
interface Running {
  readonly launched: Launched;
  readonly port: LinkPort;
  readonly facts: GatewayFacts;
  /** Copies folders of this machine to the kernels. */
  readonly copy: CopyFolder;
  /** The supervisor of a launcher that outlives this process. */
  readonly launcher: SupervisedLauncher | undefined;
}

function runningAt(
  parts: AsyncDisposableStack,
  { launched, facts, launcher }: Pick<Running, "launched" | "facts" | "launcher">,
): Running {
  const { link } = launched;
  const port = parts.use(LinkPort.open(link));
  const copy = folderCopier(new WorkspaceFiles(() => link.startProgram("file")));
  return { launched, port, facts, copy, launcher };
}

/** Opens the link to a gateway that runs. */
async function attachIn(
  attempt: Attempt,
  { options, launcher, facts }: {
    readonly options: AttachOptions;
    readonly launcher: SupervisedLauncher;
    readonly facts: GatewayFacts;
  },
): Promise<Running> {
  const { parts, deadline } = attempt;
  attempt.process = launcher;
  const launched = linkTo(parts, launcher, options.kernelDoor);
  await untilReady(launched, facts, deadline);
  return runningAt(parts, { launched, facts, launcher });
}

async function startIn(
  attempt: Attempt,
  options: KernelGatewayOptions,
  session?: DurableSession,
): Promise<Running> {
  const { log = silentLogger } = options;
  const { parts, deadline } = attempt;
  using canaryPort = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const placeIn = options.placement === undefined ? localPlace : remotePlace;
  const place = await placeIn(parts, {
    options,
    deadline,
    canaryPort: canaryPort.addr.port,
    session,
  });
  const { process, supervised: launcher, paths, sandboxed, limits, copied } = place;
  attempt.process = process;
  const launched = linkTo(parts, process, options.kernelDoor);
  await place.begin();
  const report = await untilReady(launched, place, deadline);
  log.debug(`The launcher is up: ${JSON.stringify(report)}`);
  place.judge(report);

  const token = randomToken();
  const facts: GatewayFacts = {
    token,
    sessionDir: paths.session,
    stubs: paths.stubs,
    hasChecker: place.python.checker !== undefined,
    sandboxed,
    kernelsApart: sandboxed && !place.exposesPrograms &&
      (report.platform !== "linux" || hasLandlock(report)),
    limits,
    copied,
  };
  const running = runningAt(parts, { launched, facts, launcher });
  launched.link.start(
    gatewaySpec({
      ...{ options, place, token },
      kernelsApart: sandboxed && hasLandlock(report),
      durable: session !== undefined,
    }),
  );
  await untilUp(
    allDone([
      untilAnswers(running.port.number, token, deadline),
      copied?.modules && abortable(running.copy(copied.modules), deadline),
    ]).then(() => {}),
    launched,
    deadline,
  );
  return running;
}

/**
 * Waits until a gateway answers a request. It is sent once: the listener is there from the start,
 * and answers as soon as the gateway is up.
 *
 * This is plain HTTP over a plain socket, because `fetch` might go through the user's proxy.
 */
async function untilAnswers(
  port: number,
  token: string,
  signal: AbortSignal,
): Promise<void> {
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  using _abort = onAbort(signal, () => connection[Symbol.dispose]());
  try {
    const lines = [
      "GET /api HTTP/1.1",
      `Host: 127.0.0.1:${port}`,
      `Authorization: token ${token}`,
      "Connection: close",
    ];
    await connection.write(new TextEncoder().encode(lines.join("\r\n") + "\r\n\r\n"));
    // Read to the end, but no more than a gateway would send.
    const answer = new TextDecoder().decode(await fill(new Uint8Array(8192), connection));
    if (!answer.startsWith("HTTP/1.1 200 ")) {
      throw new Error(`The kernel gateway answered: ${answer.split("\r\n")[0]}`);
    }
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  }
}

interface GatewayParts {
  readonly options: KernelGatewayOptions;
  readonly place: Place;
  readonly token: string;
  /** Whether kernels can be kept from tracing and signalling each other. */
  readonly kernelsApart: boolean;
  /** Whether they outlive this process. */
  readonly durable: boolean;
}

/** The launcher's orders. Only its stdin carries the token. */
function gatewaySpec({ options, place, token, kernelsApart, durable }: GatewayParts): unknown {
  const { python, paths, workspace, copied, rlimits } = place;
  const { kernelEnv = {}, kernelToken, packages = [] } = options;
  const bin = python.executable.slice(0, python.executable.lastIndexOf("/"));
  const env = { PATH: `${bin}:${place.path}`, LANG: "C.UTF-8", JUPYTER_NO_CONFIG: "1" };
  const pythonPath = [paths.runtime, workspace, ...packages];
  if (copied?.modules !== undefined) pythonPath.splice(1, 0, copied.modules.there);
  if (kernelEnv.PYTHONPATH !== undefined) pythonPath.push(kernelEnv.PYTHONPATH);
  const program = (
    name: string,
    ...args: string[]
  ) => [python.executable, "-I", "-S", `${paths.launcher}/${name}.py`, ...args];
  return {
    argv: [python.executable, "-I", `${paths.launcher}/gateway.py`],
    cwd: workspace,
    env: { ...python.variables, ...env, ...paths.environment() },
    door: options.kernelDoor !== undefined,
    programs: {
      ...(python.checker === undefined
        ? {}
        : { checker: program("checker", python.checker, "server") }),
      file: program("file", workspace),
    },
    inherit: place.inherit,
    limits: rlimits.all,
    input: {
      token,
      kernel_env: {
        ...python.variables,
        ...env,
        ...place.environment,
        PATH: [env.PATH, ...packages.flatMap(programsOf)].join(":"), // no package replaces a program
        ...(kernelToken === undefined ? {} : { IPYBOX_TOOL_TOKEN: kernelToken }),
        ...(durable ? { IPYBOX_TOOL_DURABLE: "1" } : {}),
        ...kernelEnv,
        PYTHONPATH: pythonPath.join(":"),
      },
      kernel_script: `${paths.launcher}/kernel.py`,
      kernel_limits: rlimits.kernel,
      kernels_apart: kernelsApart,
      kernels_dir: paths.kernels,
      // A short path: programs make sockets there.
      kernel_folders: place.hasOwnTmp ? { ...KERNEL_FOLDERS, TMPDIR: "/tmp" } : KERNEL_FOLDERS,
      resource_dir: paths.launcher,
      // On this machine, code can write to none of them, or to all of the user's files.
      guards_programs: copied !== undefined,
      durable,
    },
  };
}
