import type { ChunkEvent } from "../executor/events.ts";
import type { CommandIo } from "./command.ts";

/** How much output may wait for an answer. */
const MOST_HELD = 1_000_000;

/**
 * Prints code's output as it comes, ends a line that the code left open before others print, and
 * keeps the code from drawing over what others print.
 *
 * At a terminal, code could otherwise rewrite the question that a person answers.
 */
export class OutputPrinter {
  readonly #io: CommandIo;
  readonly #filters = { stdout: new TerminalFilter(), stderr: new TerminalFilter() };
  #open: "stdout" | "stderr" | undefined;
  #moved = false;
  #holders = 0;
  #held: ChunkEvent[] = [];
  #heldSize = 0;
  #released = Promise.withResolvers<void>();

  /** @param io Where output goes. */
  constructor(io: CommandIo) {
    this.#io = io;
  }

  /** Prints a chunk, or keeps it while a question stands; resolves when there is room for more. */
  async print(chunk: ChunkEvent): Promise<void> {
    if (this.#holders === 0) return this.#print(chunk);
    this.#held.push(chunk);
    this.#heldSize += chunk.text.length;
    if (this.#heldSize > MOST_HELD) await this.#released.promise;
  }

  /** Keeps output back until the returned object is disposed, so that a question stands alone. */
  hold(): Disposable {
    if (this.#holders++ === 0) {
      this.endLine();
      // Colours may hide a question, and the cursor may stand above older text.
      if (this.#moved) this.#io.errText("\r\x1b[0m\x1b[J");
      this.#moved = false;
      this.#released = Promise.withResolvers();
    }
    return {
      [Symbol.dispose]: () => {
        if (--this.#holders === 0) this.release();
      },
    };
  }

  /** Prints what was kept back. */
  release(): void {
    const held = this.#held;
    this.#held = [];
    this.#heldSize = 0;
    this.#released.resolve();
    for (const chunk of held) this.#print(chunk);
  }

  /** Ends a line that the code left open. */
  endLine(): void {
    if (this.#open === "stdout") this.#io.out("\n");
    else if (this.#open === "stderr") this.#io.errText("\n");
    this.#open = undefined;
  }

  #print({ stream, text }: ChunkEvent): void {
    const { interactive, stdoutIsTerminal } = this.#io;
    const atTerminal = stream === "stdout" ? stdoutIsTerminal : interactive;
    const shown = atTerminal ? this.#filters[stream].filter(text) : text;
    if (atTerminal && shown.includes("\x1b")) this.#moved = true;
    if (stream === "stdout") this.#io.out(shown);
    else this.#io.errText(shown);
    // Whoever reads stderr from a pipe gets it as it is.
    if (shown !== "" && (stream === "stdout" || interactive)) {
      this.#open = shown.endsWith("\n") ? undefined : stream;
    }
  }
}

/**
 * Leaves colours, progress bars and plain text as they are, and shows other control sequences, such
 * as those that write to the clipboard or make the terminal type something, as escapes.
 */
export class TerminalFilter {
  #rest = "";

  /** Filters a text. A sequence that it ends within waits for the next one. */
  filter(text: string): string {
    const all = this.#rest + text;
    // deno-lint-ignore no-control-regex -- control characters are what this is about
    this.#rest = /\x1b(\[[0-9;:]{0,64})?$/.exec(all)?.[0] ?? "";
    return all.slice(0, all.length - this.#rest.length).replace(
      // deno-lint-ignore no-control-regex -- control characters are what this is about
      /\x1b\[[0-9;:]{0,64}[A-DGKm]|[\x00-\x06\x0b\x0c\x0e-\x1f\x7f-\x9f]/g,
      (found) =>
        found.length > 1 ? found : `\\x${found.charCodeAt(0).toString(16).padStart(2, "0")}`,
    );
  }
}
