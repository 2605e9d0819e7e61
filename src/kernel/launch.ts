/**
 * The launcher's life on the host's side: its start, its report, and what explains its end.
 *
 * @module
 */
import { abortable, settledWithin } from "../base/signals.ts";
import {
  GatewayStartError,
  type KernelDiedError,
  type ProcessEvidence,
  SandboxUnavailableError,
} from "../base/errors.ts";
import { messageOf } from "../base/message_of.ts";
import { stage } from "../base/stages.ts";
import { Link } from "../link/link.ts";
import type { Logger } from "../base/log.ts";
import { type ByteStream, joinStreams, TcpStream } from "../base/streams.ts";
import { ManagedProcess } from "../process/managed_process.ts";
import { namedProgram } from "../process/program.ts";
import { requireSandboxPrerequisites } from "../sandbox/prerequisites.ts";
import { type PreparedSandbox, sandboxFix } from "../sandbox/sandbox.ts";
import { type SelfTestReport, selfTestSchema } from "../sandbox/selftest.ts";
import type { KernelDoorTarget } from "./gateway.ts";

/** The process of a launcher, whether this process or a supervisor has started it. */
export interface LauncherProcess
  extends Pick<ManagedProcess, "pid" | "pipes" | "stderrTail" | "stop"> {
  /** What its supervisor says of its end, or of who else has it now. */
  readonly ending?: KernelDiedError | undefined;
}

/** A launcher that runs, and the link to it. */
export interface Launched {
  readonly process: LauncherProcess;
  readonly link: Link;
  /** How it ended, and with it what it had started. Never rejects. */
  readonly exited: Promise<ProcessEvidence>;
}

/** What {@linkcode launch} starts. */
export interface LaunchOptions {
  /** The launcher's command line. */
  readonly command: readonly string[];
  /** The sandbox around it. */
  readonly prepared: PreparedSandbox | undefined;
  /** Its working directory. */
  readonly cwd: string;
  /** What streams from inside lead to. */
  readonly kernelDoor: KernelDoorTarget | undefined;
  /** Receives what is written to stderr. */
  readonly log: Logger;
}

/** Starts a launcher. */
export function launch(parts: AsyncDisposableStack, options: LaunchOptions): Launched {
  const { command, prepared, cwd, kernelDoor, log } = options;
  const [program = "", ...args] = command;
  const process = ManagedProcess.spawn({
    command: prepared?.command ?? namedProgram(program),
    args: prepared?.args ?? args,
    cwd,
    env: prepared?.env ?? { LANG: "C.UTF-8" },
    onStderr: (line) => log.debug(`gateway: ${line}`),
  });
  return linkTo(parts, process, kernelDoor);
}

/** Opens the link to a launcher, which ends with `parts`. */
export function linkTo(
  parts: AsyncDisposableStack,
  process: LauncherProcess,
  kernelDoor: KernelDoorTarget | undefined,
): Launched {
  const link = Link.open({
    pipes: process.pipes,
    ...(kernelDoor === undefined ? {} : { accept: leadTo(kernelDoor) }),
  });
  parts.use(link);
  parts.defer(async () => void await process.stop()); // before the link ends, whose last frames are still read
  return { process, link, exited: evidence(process, link) };
}

function leadTo(target: KernelDoorTarget): (stream: ByteStream) => Promise<void> {
  if (typeof target === "function") return target;
  return async (stream) => await joinStreams(stream, new TcpStream(await Deno.connect(target)));
}

/** How the gateway ended, from the launcher if it could still say so. */
async function evidence(process: LauncherProcess, link: Link): Promise<ProcessEvidence> {
  let broken = "";
  try {
    await link.closed;
  } catch (error) {
    broken = `${messageOf(error)}\n`;
  }
  const own = await process.stop(); // without a link nothing can be done with it
  const exit = await link.exit ?? own;
  return process.ending ?? { ...exit, stderrTail: process.stderrTail + broken };
}

/** Waits for the launcher's report on what it can reach. */
export async function untilReady(
  launched: Launched,
  sandboxed: boolean,
  deadline: AbortSignal,
): Promise<SelfTestReport> {
  using _stage = stage("bwrap and self-test");
  return parseReport(await firstWords(launched, sandboxed, deadline), launched);
}

async function firstWords(
  launched: Launched,
  sandboxed: boolean,
  deadline: AbortSignal,
): Promise<unknown> {
  try {
    return await abortable(launched.link.ready, deadline);
  } catch (cause) {
    deadline.throwIfAborted();
    const last = await launched.exited;
    if (!sandboxed) {
      throw new GatewayStartError(`The launcher ${howEnded(last)}`, last, { cause });
    }
    await explainSandbox(cause);
    throw new SandboxUnavailableError(
      `The sandbox ${howEnded(last)} before running anything: ${last.stderrTail.trim()}`,
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
  throw new GatewayStartError("The launcher's report is malformed", evidence, {
    cause: report.error,
  });
}

/** How long after a failed answer the gateway's end is waited for, which would explain it. */
const EXPLANATION_MS = 2000;

/** Waits until the gateway answers. */
export async function untilUp(
  answer: Promise<void>,
  { process, exited }: Launched,
  deadline: AbortSignal,
): Promise<void> {
  using _stage = stage("start the gateway");
  try {
    return await answer;
  } catch (cause) {
    deadline.throwIfAborted();
    if (await settledWithin(exited, EXPLANATION_MS)) {
      const last = await exited;
      throw new GatewayStartError(`The kernel gateway ${howEnded(last)}`, last, { cause });
    }
    const evidence = { exitCode: null, signal: null, stderrTail: process.stderrTail };
    const why = cause instanceof Error ? `: ${cause.message}` : "";
    const message = `Cannot reach the kernel gateway on 127.0.0.1${why}`;
    throw new GatewayStartError(message, evidence, { cause });
  }
}

function howEnded({ exitCode, signal }: ProcessEvidence): string {
  return signal === null ? `exited with code ${exitCode}` : `was ended by ${signal}`;
}
