/**
 * The launcher's life on the host's side: its start, its report, and the reason for its end.
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
import { type ByteStream, joinStreams, SocketStream } from "../base/streams.ts";
import type { ManagedProcess } from "../process/managed_process.ts";
import { requireSandboxPrerequisites } from "../sandbox/prerequisites.ts";
import { type SelfTestReport, selfTestSchema } from "../sandbox/selftest.ts";

/** The target of connections from code in kernels: an address of the host, or a function. */
export type KernelDoorTarget =
  | { readonly hostname: string; readonly port: number }
  | ((stream: ByteStream) => Promise<void>);

/** The process of a launcher, whether this process or a supervisor has started it. */
export interface LauncherProcess
  extends Pick<ManagedProcess, "pid" | "pipes" | "stderrTail" | "stop"> {
  /** The name of its place, if not this machine. */
  readonly where?: string | undefined;
  /** The supervisor's report of its end, or of its new host. */
  readonly ending?: KernelDiedError | undefined;
  /** The interval of heartbeats to it, if its end might not be noticed otherwise. */
  readonly beatMs?: number | undefined;
}

/** A running launcher, and the link to it. */
export interface Launched {
  readonly process: LauncherProcess;
  readonly link: Link;
  /** How it ended, together with its own processes. Never rejects. */
  readonly exited: Promise<ProcessEvidence>;
}

/** Opens the link to a launcher, which ends with `parts`. */
export function linkTo(
  parts: AsyncDisposableStack,
  process: LauncherProcess,
  kernelDoor: KernelDoorTarget | undefined,
): Launched {
  const link = Link.open({
    pipes: process.pipes,
    beatMs: process.beatMs,
    ...(kernelDoor === undefined ? {} : { accept: leadTo(kernelDoor) }),
  });
  parts.use(link);
  parts.defer(async () => void await process.stop()); // before the link ends, whose last frames are still read
  return { process, link, exited: evidence(process, link) };
}

function leadTo(target: KernelDoorTarget): (stream: ByteStream) => Promise<void> {
  if (typeof target === "function") return target;
  return async (stream) => await joinStreams(stream, new SocketStream(await Deno.connect(target)));
}

/** How long to wait for the exit status of a launcher whose link broke. */
const BROKEN_MS = 2000;

/** How the gateway ended, as the launcher reports it if it still can. */
async function evidence(process: LauncherProcess, link: Link): Promise<ProcessEvidence> {
  let broken = "";
  try {
    await link.closed;
  } catch (error) {
    broken = `${messageOf(error)}\n`;
  }
  const stopping = process.stop(); // without a link nothing can be done with it
  // A launcher that broke the link may not end soon, and the reason is known.
  const isOver = broken === "" || await settledWithin(stopping, BROKEN_MS);
  const own = isOver ? await stopping : { exitCode: null, signal: null };
  const exit = await link.exit ?? own;
  return process.ending ?? { ...exit, stderrTail: process.stderrTail + broken };
}

/** Waits for the launcher's report on its place. */
export async function untilReady(
  { process, link, exited }: Launched,
  { sandboxed }: { readonly sandboxed: boolean },
  deadline: AbortSignal,
): Promise<SelfTestReport> {
  using _stage = stage("bwrap and self-test");
  const words = await abortable(link.ready, deadline).catch(async (cause: unknown) => {
    deadline.throwIfAborted();
    const last = await exited;
    if (process.where === undefined && sandboxed) throw await sandboxError(last, cause);
    const message = process.where === undefined
      ? `The launcher ${howEnded(last)}`
      : `The launcher at ${process.where} exited before it said anything`;
    throw new GatewayStartError(message, last, { cause });
  });
  const report = selfTestSchema.safeParse(words);
  if (report.success) return report.data;
  const evidence = { exitCode: null, signal: null, stderrTail: process.stderrTail };
  throw new GatewayStartError("The launcher's report is malformed", evidence, {
    cause: report.error,
  });
}

/** Why the sandbox on this machine ended before it ran anything. */
async function sandboxError(last: ProcessEvidence, cause: unknown): Promise<Error> {
  let fix = "Run it again, in case files were moved; if that does not help, report this message";
  let message = `The sandbox ${howEnded(last)} before running anything: ${last.stderrTail.trim()}`;
  try {
    await requireSandboxPrerequisites(); // only now: this takes time and permissions
  } catch (error) {
    if (error instanceof SandboxUnavailableError) ({ message, fix } = error); // or it is unknown
  }
  return new SandboxUnavailableError(message, fix, { cause });
}

/** How long to wait for the gateway's end, which would explain a failed answer. */
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

/** How a process ended, after its name. */
export function howEnded({ exitCode, signal }: ProcessEvidence): string {
  return signal === null ? `exited with code ${exitCode}` : `was ended by ${signal}`;
}
