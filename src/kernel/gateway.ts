import { allDone } from "../async/all.ts";
import { abortable, anySignal, settledWithin } from "../async/signals.ts";
import { GatewayStartError, type ProcessEvidence, SandboxUnavailableError } from "../errors.ts";
import { Link } from "../link/link.ts";
import { LinkPort } from "../link/port.ts";
import { type Logger, silentLogger } from "../log.ts";
import type { ByteStream } from "../net/byte_stream.ts";
import { joinStreams } from "../net/join_streams.ts";
import { randomToken } from "../net/random_token.ts";
import { TcpStream } from "../net/tcp_stream.ts";
import { hostEnv } from "../process/host_env.ts";
import { ManagedProcess } from "../process/managed_process.ts";
import {
  type EffectiveLimits,
  effectiveLimits,
  type ResourceLimits,
  rlimits,
} from "../sandbox/limits.ts";
import { requireSandboxPrerequisites } from "../sandbox/preflight.ts";
import {
  type PreparedSandbox,
  prepareSandbox,
  requireSandbox,
  sandboxFix,
  type SandboxOptions,
} from "../sandbox/sandbox.ts";
import { type SelfTestReport, selfTestSchema } from "../sandbox/selftest.ts";
import { askInterpreter, type Interpreter } from "./interpreter.ts";
import { untilAnswers } from "./gateway_answer.ts";
import { SessionFolder } from "./session_folder.ts";

/** Options of {@linkcode KernelGateway.start}. */
export interface KernelGatewayOptions {
  /** The path of a Python that has `jupyter_kernel_gateway` and `ipykernel`. */
  python: string;
  /** The working directory of kernels. It exists. */
  workspace: string;
  /**
   * Whether kernels run in the sandbox, and how it differs from its defaults.
   *
   * @default {true}
   */
  sandbox?: boolean | SandboxOptions | undefined;
  /**
   * What one process of the executed code may take, also without the sandbox; `false` for no limits.
   *
   * @default 8 GiB of memory, 1024 processes in the sandbox, files of 4 GiB, no limit of CPU time
   */
  limits?: ResourceLimits | false | undefined;
  /** A folder with further Python packages for kernels, which they can only read. It exists. */
  packagesDir?: string | undefined;
  /** Further environment variables of kernels. */
  kernelEnv?: Readonly<Record<string, string>> | undefined;
  /**
   * The one address on the host that code in kernels can reach, at `IPYBOX_TOOL_URL`; or what takes
   * their connections without there being an address.
   */
  kernelDoor?: KernelDoorTarget | undefined;
  /** What code in kernels shows there, from `IPYBOX_TOOL_TOKEN`. */
  kernelToken?: string | undefined;
  /**
   * How long the start may take.
   *
   * @default {60000}
   */
  startTimeoutMs?: number | undefined;
  /** Ends the start. */
  signal?: AbortSignal | undefined;
  /** Where the gateway says what is weaker than it could be. */
  log?: Logger | undefined;
}

/** Where connections of code in kernels lead: to an address of the host, or to a function. */
export type KernelDoorTarget =
  | { readonly hostname: string; readonly port: number }
  | ((stream: ByteStream) => Promise<void>);

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
  /** The folder that is the home directory of its kernels. */
  readonly sessionDir: string;
  /** Whether its kernels run in the sandbox. */
  readonly sandboxed: boolean;
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
        `The kernel gateway did not answer within ${startTimeoutMs / 1000} seconds`,
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

/** A launcher that runs, and the link to it. */
interface Launched {
  readonly process: ManagedProcess;
  readonly link: Link;
  readonly exited: Promise<ProcessEvidence>;
}

/** A gateway that answers. */
interface Running {
  readonly port: LinkPort;
  readonly token: string;
  readonly folder: SessionFolder;
  readonly sandboxed: boolean;
  readonly limits: EffectiveLimits;
  readonly process: ManagedProcess;
  readonly exited: Promise<ProcessEvidence>;
}

async function startIn(parts: AsyncDisposableStack, start: Start): Promise<Running> {
  const { options, deadline, state } = start;
  const { sandbox = true, packagesDir, log = silentLogger } = options;
  const limits = effectiveLimits(options.limits, { sandboxed: sandbox !== false });
  const folder = parts.use(await SessionFolder.create());
  const [workspace, interpreter] = await allDone([
    realFolder(options.workspace),
    askInterpreter(options.python, deadline),
  ]);
  using canaryPort = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const probe = { file: folder.canary, port: canaryPort.addr.port, process: Deno.pid };
  const command = [
    interpreter.executable,
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
    const readable = packagesDir === undefined
      ? interpreter.readable
      : [...interpreter.readable, packagesDir];
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
      { ...(sandbox === true ? {} : sandbox), log, signal: deadline, path },
    );
  }
  deadline.throwIfAborted();
  const launched = launch(parts, { command, prepared, folder, options, log });
  state.launched = launched;
  const report = parseReport(await untilReady(launched, prepared, deadline), launched);
  log.debug(`The launcher is up: ${JSON.stringify(report)}`);
  if (prepared !== undefined) requireSandbox(report, prepared.config, log);

  const token = randomToken();
  const port = parts.use(LinkPort.open(launched.link));
  launched.link.start(
    gatewaySpec({ options, interpreter, folder, workspace, prepared, limits, token, path }),
  );
  await untilUp(untilAnswers(port.number, token, deadline), launched, deadline);
  const { process, exited } = launched;
  return { port, token, folder, sandboxed: prepared !== undefined, limits, process, exited };
}

interface LaunchOptions {
  readonly command: readonly string[];
  readonly prepared: PreparedSandbox | undefined;
  readonly folder: SessionFolder;
  readonly options: KernelGatewayOptions;
  readonly log: Logger;
}

function launch(parts: AsyncDisposableStack, launching: LaunchOptions): Launched {
  const { command, prepared, folder, options, log } = launching;
  const [program = "", ...args] = command;
  const process = ManagedProcess.spawn({
    command: prepared?.command ?? program,
    args: prepared?.args ?? args,
    cwd: folder.session,
    env: prepared?.env ?? { LANG: "C.UTF-8" },
    onStderr: (line) => log.debug(`gateway: ${line}`),
  });
  const { kernelDoor } = options;
  const link = Link.open({
    input: process.stdout,
    output: process.stdin,
    ...(kernelDoor === undefined ? {} : { accept: leadTo(kernelDoor) }),
  });
  parts.use(link);
  parts.use(process); // ends before the link does, whose last frames are still read
  return { process, link, exited: evidence(process, link) };
}

function leadTo(target: KernelDoorTarget): (stream: ByteStream) => Promise<void> {
  if (typeof target === "function") return target;
  return async (stream) => await joinStreams(stream, new TcpStream(await Deno.connect(target)));
}

/** How the gateway ended, from the launcher if it could still say so. */
async function evidence(process: ManagedProcess, link: Link): Promise<ProcessEvidence> {
  let broken = "";
  try {
    await link.closed;
  } catch (error) {
    broken = `${error instanceof Error ? error.message : String(error)}\n`;
  }
  const own = await process.stop(); // without a link nothing can be done with it
  const exit = await link.exit ?? own;
  return { ...exit, stderrTail: process.stderrTail + broken };
}

async function untilReady(
  launched: Launched,
  prepared: PreparedSandbox | undefined,
  deadline: AbortSignal,
): Promise<unknown> {
  try {
    return await abortable(launched.link.ready, deadline);
  } catch (cause) {
    deadline.throwIfAborted();
    const last = await launched.exited;
    if (prepared === undefined) {
      throw new GatewayStartError(`The launcher ${howEnded(last)}`, last, { cause });
    }
    await explainSandbox(cause);
    throw new SandboxUnavailableError(
      `The sandbox ${howEnded(last)} before it ran anything: ${last.stderrTail.trim()}`,
      sandboxFix(last.stderrTail),
      { cause },
    );
  }
}

/**
 * Throws what this machine lacks, if that is why the sandbox did not start. It is only looked for
 * now, as looking takes time and permissions.
 */
async function explainSandbox(cause: unknown): Promise<void> {
  try {
    await requireSandboxPrerequisites();
  } catch (error) {
    if (!(error instanceof SandboxUnavailableError)) return; // it could not be found out
    throw new SandboxUnavailableError(error.message, error.fix, { cause });
  }
}

function parseReport(words: unknown, { process }: Launched): SelfTestReport {
  const report = selfTestSchema.safeParse(words);
  if (report.success) return report.data;
  const evidence = { exitCode: null, signal: null, stderrTail: process.stderrTail };
  throw new GatewayStartError("The launcher's report makes no sense", evidence, {
    cause: report.error,
  });
}

/** How long after a failed answer the gateway's end is waited for, which would explain it. */
const EXPLANATION_MS = 2000;

async function untilUp(
  answer: Promise<void>,
  { process, exited }: Launched,
  deadline: AbortSignal,
): Promise<void> {
  try {
    return await answer;
  } catch (cause) {
    deadline.throwIfAborted();
    if (await settledWithin(exited, EXPLANATION_MS)) {
      const last = await exited;
      throw new GatewayStartError(`The kernel gateway ${howEnded(last)}`, last, { cause });
    }
    const evidence = { exitCode: null, signal: null, stderrTail: process.stderrTail };
    throw new GatewayStartError("The kernel gateway does not answer as it should", evidence, {
      cause,
    });
  }
}

function howEnded({ exitCode, signal }: ProcessEvidence): string {
  return signal === null ? `exited with code ${exitCode}` : `was ended by ${signal}`;
}

interface SpecInput {
  readonly options: KernelGatewayOptions;
  readonly interpreter: Interpreter;
  readonly folder: SessionFolder;
  readonly workspace: string;
  readonly prepared: PreparedSandbox | undefined;
  readonly limits: EffectiveLimits;
  readonly token: string;
  readonly path: string;
}

/** What the launcher is told to start. Only its stdin carries the token. */
function gatewaySpec(input: SpecInput): unknown {
  const { options, interpreter, folder, workspace, prepared, token, path } = input;
  const { kernelEnv = {}, kernelToken, packagesDir } = options;
  const limits = rlimits(input.limits);
  const bin = interpreter.executable.slice(0, interpreter.executable.lastIndexOf("/"));
  const env = { PATH: `${bin}:${path}`, LANG: "C.UTF-8", ...folder.environment() };
  const pythonPath = [folder.runtime, workspace];
  if (packagesDir !== undefined) pythonPath.push(packagesDir);
  if (kernelEnv.PYTHONPATH !== undefined) pythonPath.push(kernelEnv.PYTHONPATH);
  return {
    argv: [interpreter.executable, "-I", `${folder.launcher}/gateway.py`],
    cwd: workspace,
    env,
    door: options.kernelDoor !== undefined,
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
      resource_dir: folder.launcher,
    },
  };
}

async function realFolder(path: string): Promise<string> {
  const real = await Deno.realPath(path).catch((cause: unknown) => {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new Deno.errors.NotFound(`Cannot use ${path} as workspace: it does not exist`, { cause });
  });
  if ((await Deno.stat(real)).isDirectory) return real;
  throw new Deno.errors.NotADirectory(`Cannot use ${path} as workspace: it is not a folder`);
}
