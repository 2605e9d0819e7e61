import { abortable, anySignal } from "../async/signals.ts";
import { GatewayStartError, type ProcessEvidence } from "../errors.ts";
import { LinkPort } from "../link/port.ts";
import { type Logger, silentLogger } from "../log.ts";
import { randomToken } from "../net/random_token.ts";
import { ControlGroup } from "../process/control_group.ts";
import { hostEnv } from "../process/host_env.ts";
import type { ManagedProcess } from "../process/managed_process.ts";
import { type EffectiveLimits, effectiveLimits } from "../sandbox/limits.ts";
import { requireOwnProgram } from "../sandbox/own_program.ts";
import { type PreparedSandbox, prepareSandbox, requireSandbox } from "../sandbox/sandbox.ts";
import { untilAnswers } from "./gateway_answer.ts";
import type { KernelGatewayOptions } from "./gateway_options.ts";
import { gatewaySpec } from "./gateway_spec.ts";
import type { SelfTestReport } from "../sandbox/selftest.ts";
import { launch, type Launched, untilReady, untilUp } from "./launch.ts";
import { locatePython } from "./python_files.ts";
import { SessionFolder } from "./session_folder.ts";

export type { KernelDoorTarget, KernelGatewayOptions } from "./gateway_options.ts";

const DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin";

/**
 * A running Jupyter Kernel Gateway, in the sandbox unless told otherwise. Disposing it ends it with
 * all its kernels and all they started.
 *
 * Any Jupyter client can use it at {@linkcode url} with {@linkcode token}.
 *
 * @example
 * ```ts
 * import { KernelGateway } from "@ipybox/ipybox";
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
  /** Where it answers: a loopback address. */
  readonly url: URL;
  /** What it wants as `Authorization: token …`. */
  readonly token: string;
  /** The folder in which each of its kernels has its home directory. */
  readonly sessionDir: string;
  /** Whether its kernels run in the sandbox. */
  readonly sandboxed: boolean;
  /** Whether code in one kernel is kept from tracing another one; never without the sandbox. */
  readonly kernelsApart: boolean;
  /** What one process of the executed code may take; `null` where there is no limit. */
  readonly limits: EffectiveLimits;
  /** Resolves, never rejects, when it has ended, however that came. */
  readonly exited: Promise<ProcessEvidence>;

  readonly #parts: AsyncDisposableStack;
  readonly #process: ManagedProcess;
  #disposing: Promise<void> | undefined;

  private constructor(parts: AsyncDisposableStack, running: Running) {
    this.#parts = parts;
    this.url = new URL(`http://127.0.0.1:${running.port.number}/`);
    this.token = running.token;
    this.sessionDir = running.folder.session;
    this.sandboxed = running.sandboxed;
    this.kernelsApart = running.kernelsApart;
    this.limits = running.limits;
    this.exited = running.exited;
    this.#process = running.process;
  }

  /** The last part of what the gateway and its kernels wrote to stderr. */
  get stderrTail(): string {
    return this.#process.stderrTail;
  }

  /**
   * Starts a gateway and resolves once it answers requests and, in the sandbox, once a test from
   * inside has shown that the sandbox holds.
   *
   * @param options Which Python, where, and how.
   * @returns The running gateway.
   * @throws {EnvironmentNotReadyError} The Python is not there or lacks packages.
   * @throws {SandboxUnavailableError} The sandbox does not start or does not hold.
   * @throws {ConfigError} The workspace or the sandbox's configuration cannot be used.
   * @throws {GatewayStartError} The gateway ended or did not answer in time.
   */
  static async start(options: KernelGatewayOptions): Promise<KernelGateway> {
    const { startTimeoutMs = 60_000, signal } = options;
    const timeout = AbortSignal.timeout(startTimeoutMs);
    const deadline = anySignal(timeout, signal);
    await using parts = new AsyncDisposableStack();
    const state: { launched?: Launched } = {};
    try {
      const running = await startIn(parts, { options, deadline, state });
      return new KernelGateway(parts.move(), running);
    } catch (error) {
      if (error !== timeout.reason || !timeout.aborted) throw error;
      throw new GatewayStartError(
        `The kernel gateway did not answer within ${
          startTimeoutMs / 1000
        } s: where this machine is ` +
          "slow or busy a larger startTimeoutMs helps; `ipybox doctor` says what else to do",
        { exitCode: null, signal: null, stderrTail: state.launched?.process.stderrTail ?? "" },
        { cause: error },
      );
    }
  }

  /** Ends the gateway, its kernels and all they started, and removes the session's folder. */
  async [Symbol.asyncDispose](): Promise<void> {
    await (this.#disposing ??= this.#parts.disposeAsync());
  }
}

/** What a start works with. */
interface Start {
  readonly options: KernelGatewayOptions;
  readonly deadline: AbortSignal;
  /** What is known of the process so far. */
  readonly state: { launched?: Launched };
}

/** A gateway that answers. */
interface Running {
  readonly port: LinkPort;
  readonly token: string;
  readonly folder: SessionFolder;
  readonly sandboxed: boolean;
  readonly kernelsApart: boolean;
  readonly limits: EffectiveLimits;
  readonly process: ManagedProcess;
  readonly exited: Promise<ProcessEvidence>;
}

async function startIn(parts: AsyncDisposableStack, start: Start): Promise<Running> {
  const { options, deadline, state } = start;
  const { sandbox = true, packages = [], log = silentLogger } = options;
  const limits = effectiveLimits(options.limits, { sandboxed: sandbox !== false });
  const folder = parts.use(await SessionFolder.create(log));
  const workspace = await realFolder(options.workspace);
  await requireOwnProgram(options.python, { workspace, what: "Python" });
  const python = await locatePython(options.python, deadline);
  using canaryPort = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const probe = { file: folder.canary, port: canaryPort.addr.port, process: Deno.pid };
  const command = [
    python.executable,
    "-I",
    "-S",
    `${folder.launcher}/launcher.py`,
    JSON.stringify(probe),
  ];
  const path = hostEnv("PATH") ?? DEFAULT_PATH;
  let prepared: PreparedSandbox | undefined;
  if (sandbox === false) {
    log.warn("No sandbox: executed code can do everything that this user can do");
  } else {
    const readable = [...python.readable, ...packages];
    // The host runs that Python, too.
    const inWorkspace = readable.filter((path) => path.startsWith(`${workspace}/`));
    prepared = await prepareSandbox(
      {
        session: folder.session,
        readOnly: [folder.launcher, folder.runtime, ...inWorkspace],
        hostPrivate: folder.hostPrivate,
        workspace,
        readable,
      },
      command,
      {
        ...(sandbox === true ? {} : sandbox),
        nestedWorkspace: options.nestedWorkspace,
        log,
        signal: deadline,
        path,
        belongings: parts,
      },
    );
  }
  deadline.throwIfAborted();
  const { kernelDoor } = options;
  const grouped = parts.use(new Grouped()); // it ends after what is in it
  const launched = launch(parts, { command, prepared, cwd: folder.session, kernelDoor, log });
  state.launched = launched;
  grouped.take(launched.process.pid, limits, log);
  const report = await untilReady(launched, prepared !== undefined, deadline);
  await abortable(grouped.taken, deadline);
  log.debug(`The launcher is up: ${JSON.stringify(report)}`);
  if (prepared !== undefined) requireSandbox(report, prepared.config, log);

  const token = randomToken();
  const port = parts.use(LinkPort.open(launched.link));
  launched.link.start(
    gatewaySpec({
      ...{ options, python, folder, workspace, prepared, limits, token, path },
      kernelsApart: prepared !== undefined && hasLandlock(report),
    }),
  );
  await untilUp(untilAnswers(port.number, token, deadline), launched, deadline);
  const { process, exited } = launched;
  const sandboxed = prepared !== undefined;
  const kernelsApart = sandboxed && (report.platform !== "linux" || hasLandlock(report));
  return { port, token, folder, sandboxed, kernelsApart, limits, process, exited };
}

/** What our own processes of a session take of its number: bubblewrap, relays, launcher, gateway. */
const OWN_PROCESSES = 64;

/** The control group of a session's processes, where there can be one. */
class Grouped implements AsyncDisposable {
  taken: Promise<ControlGroup | undefined> = Promise.resolve(undefined);

  take(pid: number, { memoryBytes, processes }: EffectiveLimits, log: Logger): void {
    const count = processes === null ? null : processes + OWN_PROCESSES;
    this.taken = ControlGroup.take(pid, { memoryBytes, processes: count }).then((group) => {
      log.debug(group ? `Limited together by ${group.keeper}` : "No control group can be had");
      return group;
    }, (error: unknown) => {
      log.warn(`The session's processes are not limited together: ${error}`);
      return undefined;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await (await this.taken)?.[Symbol.asyncDispose]();
  }
}

/** Whether Linux can keep processes of one user apart; the first version of Landlock cannot be used. */
function hasLandlock({ landlock = 0 }: SelfTestReport): boolean {
  return landlock >= 2;
}

async function realFolder(path: string): Promise<string> {
  const real = await Deno.realPath(path).catch((cause: unknown) => {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new Deno.errors.NotFound(`Cannot use ${path} as workspace: it does not exist`, { cause });
  });
  if ((await Deno.stat(real)).isDirectory) return real;
  throw new Deno.errors.NotADirectory(`Cannot use ${path} as workspace: it is not a folder`);
}
