/**
 * Runs the commands that create a place and wait for it, explain why it is gone, and end it.
 *
 * @module
 */
import { EnvironmentNotReadyError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { messageOf } from "../base/message_of.ts";
import { hostEnv, isGranted } from "../base/permission.ts";
import { abortable } from "../base/signals.ts";
import type { ByteStream } from "../base/streams.ts";
import type { PlaceCommand, Seen, StartCommand } from "./place_command.ts";
import { ManagedProcess } from "../process/managed_process.ts";
import { hostPath, programOf, type ProgramPath } from "../process/program.ts";
import { runProgram } from "../process/run_program.ts";
import { trustedPath } from "../process/trusted_path.ts";

export interface StepOptions {
  readonly log: Logger;
  /** Folders that code can write to. */
  readonly untrusted: readonly string[];
  /** The fix for an error message of a command. */
  readonly fix: (text: string) => string;
}

/** The time limit for a command to explain why a place is gone or not ready. */
const QUESTION_MS = 3000;

/** Creates a place, and waits for it. */
export async function makePlace(
  { name, start = [], find = [] }: PlaceCommand,
  { untrusted, fix, deadline }: StepOptions & { readonly deadline: AbortSignal },
): Promise<void> {
  const failed = (text: string) =>
    new EnvironmentNotReadyError(`Cannot start a kernel with ${name}: ${text}`, fix(text));
  for (const command of [...start, ...find]) {
    const { args: [program = "", ...args], input, until, otherwise } = command;
    if (until === undefined) {
      const end = await runProgram(await installed(program, untrusted), {
        ...{ args, input, signal: deadline },
      });
      if (!end.success) throw failed(words(end.stderr) || `${program} failed without a message`);
      continue;
    }
    const seen = await watch(command, { until, untrusted, signal: deadline });
    if (seen.is === "ready") continue;
    if (seen.is === "lost") throw failed(seen.why);
    if (!isLate(deadline)) deadline.throwIfAborted();
    const more = otherwise && await ask(otherwise, untrusted);
    const known = more?.includes(seen.why) ? [more] : [seen.why, more];
    throw failed(["it was not ready in time", ...known].filter(Boolean).join(": "));
  }
}

/** Whether a start has timed out, as opposed to being cancelled. */
function isLate({ aborted, reason }: AbortSignal): boolean {
  return aborted && reason instanceof DOMException && reason.name === "TimeoutError";
}

/** Why a place whose command has ended is gone; `undefined` if that is unknown. */
export async function fateOf(
  { fate }: PlaceCommand,
  { untrusted }: StepOptions,
): Promise<string | undefined> {
  if (fate?.until === undefined) return undefined;
  const { until } = fate;
  const seen = await watch(fate, {
    until: (printed) => {
      const now = until(printed);
      return now.is === "lost" ? now : { is: "waiting", why: "" };
    },
    untrusted,
    signal: AbortSignal.timeout(QUESTION_MS),
  });
  if (seen.is === "ready" || seen.why === "") return undefined;
  return /\(NotFound\)/.test(seen.why) ? "it was deleted" : seen.why;
}

export async function endPlace(
  { name, stop, gone }: PlaceCommand,
  { log, untrusted }: StepOptions,
): Promise<void> {
  if (stop === undefined) return;
  const [program = "", ...args] = stop;
  const { success, stderr } = await runProgram(await installed(program, untrusted), { args });
  if (success || gone !== undefined && new RegExp(gone).test(stderr)) return;
  log.warn(`${name}: ${stop.join(" ")} failed: ${words(stderr)}`);
}

/** A command's error message, without `kubectl`'s log lines. */
function words(stderr: string): string {
  return stderr.split("\n").filter((line) => !/^[EWI]\d{4} /.test(line)).join("\n").trim();
}

/** Asks another command; `undefined` if it does not know. */
async function ask(
  { args: [program = "", ...args], read }: NonNullable<StartCommand["otherwise"]>,
  untrusted: readonly string[],
): Promise<string | undefined> {
  const signal = AbortSignal.timeout(QUESTION_MS);
  try {
    const end = await runProgram(await installed(program, untrusted), { args, signal });
    return end.success ? read(JSON.parse(end.stdout)) : undefined;
  } catch {
    return undefined;
  }
}

/** The environment of the commands: engines and ssh use some variables of this process. */
function environment(): Record<string, string> {
  if (isGranted({ name: "env" })) return Deno.env.toObject();
  const home = hostEnv("HOME");
  return home === undefined ? {} : { HOME: home };
}

/** The same environment, with a `PATH` that has no programs of executed code. */
export async function trustedEnvironment(
  untrusted: readonly string[],
): Promise<Record<string, string>> {
  return { ...environment(), PATH: await trustedPath(hostPath(), untrusted) };
}

/** Finds a program that the user must have installed. */
export async function installed(
  program: string,
  untrusted: readonly string[],
): Promise<ProgramPath> {
  return await programOf(program, { untrusted }).catch((cause: unknown) => {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new EnvironmentNotReadyError(cause.message, `Install ${program}`, { cause });
  });
}

/** Follows a command's output until the state is clear or the command ends. */
async function watch(
  { args: [program = "", ...args] }: StartCommand,
  { until, untrusted, signal }: {
    readonly until: (printed: unknown) => Seen;
    readonly untrusted: readonly string[];
    readonly signal: AbortSignal;
  },
): Promise<Seen> {
  let why = "";
  await using process = ManagedProcess.spawn({
    command: await installed(program, untrusted),
    args,
    env: await trustedEnvironment(untrusted),
    inputGraceMs: 0,
  });
  try {
    for await (const printed of documents(process.pipes, signal)) {
      const seen = until(printed);
      if (seen.is !== "waiting") return seen;
      ({ why } = seen);
    }
  } catch (error) {
    if (signal.aborted) return { is: "waiting", why };
    return { is: "lost", why: `The output of ${program} cannot be read: ${messageOf(error)}` };
  }
  await process.exited;
  return {
    is: "lost",
    why: words(process.stderrTail) || why || `${program} ended without a message`,
  };
}

/** The longest JSON object, including the bytes after it. */
const MAX_DOCUMENT = 1 << 22;

/** The JSON objects that a program prints, each on several lines. */
async function* documents(stream: ByteStream, signal: AbortSignal): AsyncGenerator<unknown> {
  const decoder = new TextDecoder();
  let text = "";
  while (true) {
    const bytes = await abortable(stream.read(), signal);
    text += bytes === null ? decoder.decode() : decoder.decode(bytes, { stream: true });
    for (let end; (end = /^\}\n?/m.exec(text)) !== null;) {
      const length = end.index + end[0].length;
      yield JSON.parse(text.slice(0, length));
      text = text.slice(length);
    }
    if (bytes === null) return;
    if (text.length > MAX_DOCUMENT) throw new Error("It prints more than ipybox reads");
  }
}
