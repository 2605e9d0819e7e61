import { abortable } from "../async/signals.ts";
import { EnvironmentNotReadyError } from "../errors.ts";
import { bytesOf, type ByteStream } from "../net/byte_stream.ts";
import { ManagedProcess } from "../process/managed_process.ts";
import type { ProgramPath } from "../process/program.ts";

/** Options of {@linkcode runStep}. */
export interface StepOptions {
  /** The whole environment of the program. */
  readonly env: Readonly<Record<string, string>>;
  /** Called with a line at most every two seconds. */
  readonly onProgress?: ((line: string) => void) | undefined;
  /** Ends the program, with all that it started. */
  readonly signal?: AbortSignal | undefined;
}

/** Short enough to be seen to move, long enough for a log. */
const PROGRESS_EVERY_MS = 2000;

/** How many of its last lines a failure shows. */
const LAST_LINES = 8;

/** Runs one program of an installation to its end. */
export async function runStep(
  command: ProgramPath,
  args: readonly string[],
  options: StepOptions,
): Promise<void> {
  const { env, signal } = options;
  signal?.throwIfAborted();
  const lines = new StepOutput(options);
  // An installer has nothing to lose, so it does not get long to end.
  await using process = ManagedProcess.spawn({
    command,
    args,
    env,
    onStderr: (line) => lines.add(line),
    inputGraceMs: 0,
    termGraceMs: 1000,
  });
  const read = lines.readFrom(process.pipes);
  const ended = signal === undefined ? process.exited : abortable(process.exited, signal);
  const { exitCode, signal: killedBy } = await ended;
  await read;
  if (exitCode === 0) return;
  const how = killedBy === null ? `exited with code ${exitCode}` : `was ended by ${killedBy}`;
  throw new EnvironmentNotReadyError(
    `Cannot build the Python environment: ${command} ${how}${lines.last()}`,
    "Read its last lines above. If this machine was offline, connect and run `ipybox setup` again; " +
      "if the disk is full, free 200 MB",
  );
}

/** What a program says, on both streams, as far as it matters. */
class StepOutput {
  #options: StepOptions;
  #last: string[] = [];
  #packages = 0;
  #spokenAt = Date.now();

  constructor(options: StepOptions) {
    this.#options = options;
  }

  add(line: string): void {
    // pip says of each package for other systems that it is ignored.
    if (line.trim() === "" || line.startsWith("Ignoring ")) return;
    this.#last.push(line.trimEnd());
    if (this.#last.length > LAST_LINES) this.#last.shift();
    if (line.startsWith("Collecting ")) this.#packages++;
    if (Date.now() - this.#spokenAt < PROGRESS_EVERY_MS) return;
    if (line.startsWith("Successfully")) return;
    this.#spokenAt = Date.now();
    this.#options.onProgress?.(
      line.startsWith("Collecting ") || line.startsWith("  ")
        ? `  ${this.#packages} packages so far`
        : `  ${line.trim().slice(0, 70)}`,
    );
  }

  async readFrom(pipes: ByteStream): Promise<void> {
    const decoder = new TextDecoder();
    let rest = "";
    for await (const bytes of bytesOf(pipes)) {
      const text = decoder.decode(bytes, { stream: true });
      const lines = (rest + text).split(/\r?\n|\r/);
      rest = lines.pop() ?? "";
      for (const line of lines) this.add(line);
    }
    if (rest !== "") this.add(rest);
  }

  last(): string {
    return this.#last.map((line) => `\n  ${line}`).join("");
  }
}
