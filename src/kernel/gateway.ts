import { fill } from "../base/bytes.ts";
import { GatewayStartError, type ProcessEvidence } from "../base/errors.ts";
import { type Logger, silentLogger } from "../base/log.ts";
import { requirePositive } from "../base/numbers.ts";
import { hostEnv } from "../base/permission.ts";
import { abortable, anySignal } from "../base/signals.ts";
import { stage } from "../base/stages.ts";
import type { ByteStream } from "../base/streams.ts";
import { randomToken } from "../base/tokens.ts";
import { LinkPort } from "../link/link.ts";
import type { ManagedProcess } from "../process/managed_process.ts";
import {
  type EffectiveLimits,
  effectiveLimits,
  LimitedTogether,
  type ResourceLimits,
  rlimits,
} from "../sandbox/limits.ts";
import {
  type PreparedSandbox,
  prepareSandbox,
  requireSandbox,
  type SandboxOptions,
} from "../sandbox/sandbox.ts";
import type { SelfTestReport } from "../sandbox/selftest.ts";
import { requireOwnProgram } from "../sandbox/workspace.ts";
import type { CheckerProcess } from "./gateway_connection.ts";
import { launch, type Launched, untilReady, untilUp } from "./launch.ts";
import { locatePython, type PythonFiles } from "./python_files.ts";
import { KERNEL_FOLDERS, SessionFolder } from "./session_folder.ts";

const DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin";

/**
 * A running Jupyter Kernel Gateway, in the sandbox unless told otherwise. Disposing it ends it with
 * all its kernels and all they started.
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
  /** What one process of the executed code may use; `null` for no limit. */
  readonly limits: EffectiveLimits;
  /** Resolves, never rejects, when it has ended, however that came. */
  readonly exited: Promise<ProcessEvidence>;

  readonly #parts: AsyncDisposableStack;
  readonly #process: ManagedProcess;
  readonly #checker: () => CheckerProcess | undefined;
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
    this.#checker = running.checker;
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
   * @throws {EnvironmentNotReadyError} The Python is missing or lacks packages.
   * @throws {SandboxUnavailableError} The sandbox does not start or does not hold.
   * @throws {ConfigError} The workspace or the sandbox's configuration cannot be used.
   * @throws {GatewayStartError} The gateway ended or did not answer in time.
   * @throws {RangeError} A time limit is not positive.
   */
  static async start(options: KernelGatewayOptions): Promise<KernelGateway> {
    requirePositive(options, ["startTimeoutMs"]);
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
        `The kernel gateway did not answer within ${startTimeoutMs / 1000} s. If this machine is ` +
          "slow or busy, try again (programs: increase startTimeoutMs); otherwise run `ipybox doctor`",
        { exitCode: null, signal: null, stderrTail: state.launched?.process.stderrTail ?? "" },
        { cause: error },
      );
    }
  }

  /** @internal */
  openChecker(): CheckerProcess | undefined {
    return this.#checker();
  }

  /** Ends the gateway, its kernels and all they started, and removes the session's folder. */
  async [Symbol.asyncDispose](): Promise<void> {
    using _stage = stage("end the gateway");
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
  readonly checker: () => CheckerProcess | undefined;
}

async function startIn(parts: AsyncDisposableStack, start: Start): Promise<Running> {
  const { options, deadline, state } = start;
  const { sandbox = true, packages = [], log = silentLogger } = options;
  const limits = effectiveLimits(options.limits, { sandboxed: sandbox !== false });
  const folder = parts.use(await SessionFolder.create(log));
  const workspace = await realFolder(options.workspace);
  await requireOwnProgram(options.python, { workspace, what: "Python" });
  const located = locatePython(options.python, deadline);
  // A start that fails earlier leaves no process either. Who needs its answer gets the error.
  parts.defer(() => located.then(() => {}, () => {}));
  using canaryPort = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const probe = { file: folder.canary, port: canaryPort.addr.port, process: Deno.pid };
  const commandOf = ({ executable }: PythonFiles) => [
    executable,
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
    const contents = located.then((python) => {
      const readable = [...python.readable, ...packages];
      // The host runs that Python, too.
      const inWorkspace = readable.filter((path) => path.startsWith(`${workspace}/`));
      const readOnly = [folder.launcher, folder.runtime, folder.stubs, ...inWorkspace];
      return { command: commandOf(python), readable, readOnly };
    });
    contents.catch(() => {});
    prepared = await prepareSandbox(
      { session: folder.session, hostPrivate: folder.hostPrivate, workspace },
      contents,
      {
        ...(sandbox === true ? {} : sandbox),
        nestedWorkspace: options.nestedWorkspace,
        log,
        signal: deadline,
        path,
        belongings: parts,
        waits: true,
      },
    );
  }
  const python = await located;
  const command = commandOf(python);
  deadline.throwIfAborted();
  const { kernelDoor } = options;
  const grouped = parts.use(new LimitedTogether()); // it ends after what is in it
  const launched = launch(parts, { command, prepared, cwd: folder.session, kernelDoor, log });
  state.launched = launched;
  grouped.take(launched.process.pid, limits, log);
  await abortable(grouped.taken, deadline);
  if (prepared?.waits) await beginSandbox(launched);
  const report = await untilReady(launched, prepared !== undefined, deadline);
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
  const checker = () => openChecker(launched, folder, python);
  return { port, token, folder, sandboxed, kernelsApart, limits, process, exited, checker };
}

/** Has the sandbox start, now that all that it starts is limited together. */
async function beginSandbox({ process }: Launched): Promise<void> {
  // Where it has ended already, its last words say why.
  await process.pipes.write(new TextEncoder().encode("\n")).catch(() => {});
}

/** Starts a type checker in the launcher's sandbox, with a folder for its stubs. */
function openChecker(
  { link }: Launched,
  { stubs }: SessionFolder,
  { checker }: PythonFiles,
): CheckerProcess | undefined {
  if (checker === undefined) return undefined;
  const stream = link.startProgram("checker");
  return stream && { stream, stubs: Deno.makeTempDirSync({ dir: stubs }) };
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

/**
 * Waits until a gateway answers a request. It is sent once: what listens is there from the start,
 * and answers as soon as the gateway is up.
 *
 * This is plain HTTP over a plain socket, because `fetch` might go through a proxy of the user's.
 */
async function untilAnswers(
  port: number,
  token: string,
  signal: AbortSignal,
): Promise<void> {
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  signal.throwIfAborted(); // who listens from here on hears of no earlier abortion
  const close = () => connection[Symbol.dispose]();
  signal.addEventListener("abort", close, { once: true });
  try {
    const lines = [
      "GET /api HTTP/1.1",
      `Host: 127.0.0.1:${port}`,
      `Authorization: token ${token}`,
      "Connection: close",
    ];
    await connection.write(new TextEncoder().encode(lines.join("\r\n") + "\r\n\r\n"));
    // To its end, but not more than a gateway would say.
    const answer = new TextDecoder().decode(await fill(new Uint8Array(8192), connection));
    if (!answer.startsWith("HTTP/1.1 200 ")) {
      throw new Error(`The kernel gateway answered: ${answer.split("\r\n")[0]}`);
    }
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener("abort", close);
  }
}

/** What a gateway is made of. */
interface GatewayParts {
  readonly options: KernelGatewayOptions;
  readonly python: PythonFiles;
  readonly folder: SessionFolder;
  readonly workspace: string;
  readonly prepared: PreparedSandbox | undefined;
  readonly limits: EffectiveLimits;
  readonly token: string;
  readonly path: string;
  /** Whether kernels can be kept from tracing and signalling each other. */
  readonly kernelsApart: boolean;
}

/** What the launcher is told to start. Only its stdin carries the token. */
function gatewaySpec(parts: GatewayParts): unknown {
  const { options, python, folder, workspace, prepared, token, path } = parts;
  const { kernelEnv = {}, kernelToken, packages = [] } = options;
  const limits = rlimits(parts.limits);
  const bin = python.executable.slice(0, python.executable.lastIndexOf("/"));
  const env = { PATH: `${bin}:${path}`, LANG: "C.UTF-8", JUPYTER_NO_CONFIG: "1" };
  const pythonPath = [folder.runtime, workspace, ...packages];
  if (kernelEnv.PYTHONPATH !== undefined) pythonPath.push(kernelEnv.PYTHONPATH);
  return {
    argv: [python.executable, "-I", `${folder.launcher}/gateway.py`],
    cwd: workspace,
    env: { ...env, ...folder.environment() },
    door: options.kernelDoor !== undefined,
    programs: python.checker === undefined ? {} : {
      checker: [
        python.executable,
        "-I",
        "-S",
        `${folder.launcher}/checker.py`,
        python.checker,
        "server",
      ],
    },
    inherit: prepared?.proxyVariables ?? [],
    limits: limits.all,
    input: {
      token,
      kernel_env: {
        ...env,
        ...(kernelToken === undefined ? {} : { IPYBOX_TOOL_TOKEN: kernelToken }),
        ...kernelEnv,
        PYTHONPATH: pythonPath.join(":"),
      },
      kernel_script: `${folder.launcher}/kernel.py`,
      kernel_limits: limits.kernel,
      kernels_apart: parts.kernelsApart,
      kernels_dir: folder.kernels,
      kernel_folders: KERNEL_FOLDERS,
      resource_dir: folder.launcher,
    },
  };
}

/** Options of `KernelGateway.start()`. */
export interface KernelGatewayOptions {
  /** The path of a Python that has `jupyter_kernel_gateway` and `ipykernel`. */
  python: string;
  /** The working directory of kernels. It exists. */
  workspace: string;
  /**
   * Whether code runs in the OS sandbox, and how that differs from its defaults.
   *
   * @default {true}
   */
  sandbox?: boolean | SandboxOptions;
  /**
   * Accepts a workspace in another one, and one with others in it. The code of the outer one can write
   * to the files of the inner one, and could have put there what the host obeys.
   *
   * @default {false}
   */
  nestedWorkspace?: boolean;
  /**
   * What one process of the executed code may take, also without the sandbox; `false` for no limits.
   * An error that comes from one of them names it.
   *
   * @default 8 GiB of memory, 1024 processes in the sandbox, files of 4 GiB, no limit of CPU time
   */
  limits?: ResourceLimits | false;
  /**
   * Folders with further Python packages for kernels, which can only read them. They exist.
   *
   * @default {[]}
   */
  packages?: readonly string[];
  /** Environment variables of the kernel, which inherits nothing of the host's but `PATH`. */
  kernelEnv?: Readonly<Record<string, string>>;
  /**
   * The one address on the host that code in kernels can reach, at `IPYBOX_TOOL_URL`, such as
   * `tcp://127.0.0.1:41234`; or what takes their connections without there being an address.
   */
  kernelDoor?: KernelDoorTarget;
  /**
   * What code in all its kernels shows there, from `IPYBOX_TOOL_TOKEN`. One for each kernel is what
   * `KernelClientOptions.toolToken` gives.
   */
  kernelToken?: string;
  /**
   * How long the gateway and the kernel may each take to start, in milliseconds.
   *
   * @default {60000}
   */
  startTimeoutMs?: number;
  /** Cancels the start. */
  signal?: AbortSignal;
  /**
   * Receives log messages, such as warnings about weaker protection.
   *
   * @default nothing is logged
   */
  log?: Logger;
}

/** Where connections of code in kernels lead: to an address of the host, or to a function. */
export type KernelDoorTarget =
  | { readonly hostname: string; readonly port: number }
  | ((stream: ByteStream) => Promise<void>);
