import type { ApprovalRequest } from "../../approval/request.ts";
import {
  CodeExecutionError,
  ExecutionTimeoutError,
  KernelDiedError,
  NO_OUTPUT,
} from "../../base/errors.ts";
import type { CodeExecutor } from "../../executor/code_executor.ts";
import type { ChunkEvent, OptionalEvent } from "../../executor/options.ts";
import type { InputRequest } from "../../kernel/execution.ts";
import type { ExecutionResult } from "../../kernel/outputs.ts";
import { MAX_UNREAD } from "../../kernel/spill_file.ts";
import type { ElicitationRequest } from "../../approval/questions.ts";
import { type CommandIo, EXIT } from "../command.ts";
import { printable } from "../../base/log.ts";
import { CodeColors } from "../terminal/code_colors.ts";
import { printableOutput } from "../terminal/columns.ts";
import { fileLink, type PictureProtocol, showPicture } from "../terminal/pictures.ts";

/** The cost of a chunk besides its text: code can print one character at a time. */
const CHUNK_COST = 128;

export interface RunActionOptions {
  readonly io: CommandIo;
  /** Whether to print the outcome as one JSON object, instead of the output as it arrives. */
  readonly json?: boolean;
  readonly timeoutMs?: number;
  /** Whether `sys.exit()` sets the exit code and prints only its message, as in Python. */
  readonly exits?: boolean;
  readonly storeHistory?: boolean;
  /** A label that terminals show before the code's value. */
  readonly resultLabel?: string;
  /** How the terminal shows pictures; without it, only their paths are printed. */
  readonly pictures?: PictureProtocol;
  readonly decide: (request: ApprovalRequest) => Promise<void>;
  /** Answers questions of MCP servers; without it, they are declined. */
  readonly answer?: (request: ElicitationRequest) => Promise<void>;
  /** Answers calls of `input()`; without it, they raise an error. */
  readonly prompt?: (request: InputRequest) => Promise<void>;
  /** Extracts the code's result, for the JSON's `result` or for printing after all output. */
  readonly resultIn?: (outputs: ExecutionResult["outputs"]) => unknown;
  /** Receives all outputs at the end, which may be an error. */
  readonly onOutputs?: (outputs: ExecutionResult["outputs"]) => void;
}

interface Outcome extends Omit<ExecutionResult, "html"> {
  readonly result?: unknown;
  readonly status: "ok" | "error" | "timeout" | "died";
  readonly error?: {
    readonly ename: string;
    readonly evalue: string;
    readonly traceback?: string;
  };
}

/**
 * Runs a code action, or cells one after the other until one fails or exits. Without code, follows the
 * one that a durable session is running.
 */
export async function runAction(
  executor: CodeExecutor,
  code: string | readonly string[] | undefined,
  options: RunActionOptions,
): Promise<number> {
  const { io, json = false, exits = false } = options;
  const cells = code === undefined || typeof code === "string" ? [code] : code;
  let outcome: Outcome = { status: "ok", text: null, images: [], outputs: [] };
  let exitCode: number | undefined;
  try {
    for (const cell of cells) {
      const { html: _inOutputs, ...result } = await follow(executor, cell, options);
      if (!json) await showFiles(result, options);
      outcome = joined(outcome, result);
    }
    options.onOutputs?.(outcome.outputs);
  } catch (error) {
    const ended = outcomeOf(error);
    if (ended === undefined) throw error;
    options.onOutputs?.(ended.outputs);
    const exit = exits ? exitOf(ended) : undefined;
    if (ended.status !== "ok" && !json && exit === undefined) {
      await showFiles(ended, options);
      throw error;
    }
    outcome = joined(outcome, ended);
    exitCode = exit?.code;
    if (exit?.message !== undefined && !json) io.err(printableOutput(exit.message));
    if (!json) await showFiles(ended, options);
  }
  const result = options.resultIn?.(outcome.outputs);
  if (json) {
    const images = outcome.images.map(({ path }) => path);
    io.out(JSON.stringify({ ...outcome, images, result }, null, 2) + "\n");
  } else if (result !== undefined) {
    const text = typeof result === "string" ? result : JSON.stringify(result, null, 2);
    io.out(`${io.stdoutIsTerminal ? printable(text) : text}\n`);
  }
  return exitCode ?? (outcome.status === "ok" ? EXIT.ok : EXIT.failed);
}

async function showFiles(
  { images, wholeText }: Pick<ExecutionResult, "images" | "wholeText">,
  options: RunActionOptions,
): Promise<void> {
  for (const { path } of images) await showPicture(path, options);
  if (wholeText === undefined) return;
  options.io.err(`Whole output: ${fileLink(wholeText.path, options.io)}`);
}

/** The joint outcome of cells: all output, with the status of the last one. */
function joined(before: Outcome, last: Partial<Outcome> & Omit<ExecutionResult, "html">): Outcome {
  const texts = [before.text, last.text].filter((text) => text !== null);
  return {
    ...before,
    ...last,
    text: texts.length === 0 ? null : texts.join("\n"),
    images: [...before.images, ...last.images],
    outputs: [...before.outputs, ...last.outputs],
  };
}

async function follow(
  executor: CodeExecutor,
  code: string | undefined,
  options: RunActionOptions,
): Promise<ExecutionResult> {
  const { io, json = false, timeoutMs, storeHistory, decide, answer, prompt } = options;
  const output = new OutputPrinter(io, options.resultLabel);
  let result: ExecutionResult = NO_OUTPUT;
  // Not awaited: more output and more requests may arrive in the meantime.
  const ask = (question: () => Promise<void>): void => {
    output.endLine();
    output.hold();
    question()
      .catch((error: unknown) => io.err(`ipybox: ${printable(String(error))}`))
      .finally(() => output.release());
  };
  try {
    const events: OptionalEvent[] = [];
    if (!json) events.push("chunk");
    if (answer !== undefined) events.push("elicitation");
    if (prompt !== undefined) events.push("input");
    const common = { timeoutMs, events };
    const stream = code === undefined
      ? executor.resume(common)
      : executor.stream(code, { ...common, signal: io.signal, storeHistory });
    for await (const event of stream) {
      switch (event.type) {
        case "chunk":
          output.print(event);
          break;
        case "approval":
          ask(() => decide(event.request));
          break;
        case "elicitation":
          ask(async () => await answer?.(event.request));
          break;
        case "input":
          ask(async () => await prompt?.(event.request));
          break;
        case "note":
          output.endLine();
          io.err(printable(event.text));
          break;
        case "result":
          result = event.result;
      }
    }
    return result;
  } finally {
    output.end();
  }
}

/**
 * Prints output as it arrives, and ends an unfinished line before others print.
 *
 * During a question, output is held back, because code must not overwrite the request.
 * Output beyond 16 MiB is dropped, because a person may take long and code must not fill the
 * memory.
 */
export class OutputPrinter {
  readonly #io: CommandIo;
  readonly #resultLabel: string;
  readonly #held: ChunkEvent[] = [];
  #room = MAX_UNREAD;
  #leftOut = 0;
  #questions = 0;
  readonly #colors = { stdout: new CodeColors(), stderr: new CodeColors() };
  /** The stream with an unfinished line. */
  #open: ChunkEvent["stream"] | undefined;

  constructor(io: CommandIo, resultLabel = "") {
    this.#io = io;
    this.#resultLabel = resultLabel;
  }

  print(chunk: ChunkEvent): void {
    if (this.#questions === 0 || !this.#io.interactive) return this.#write(chunk);
    const cost = chunk.text.length + CHUNK_COST;
    if (this.#leftOut > 0 || cost > this.#room) {
      this.#leftOut += chunk.text.length;
      return;
    }
    this.#room -= cost;
    this.#held.push(chunk);
  }

  /** A question begins. */
  hold(): void {
    this.#questions++;
  }

  /** A question has ended. */
  release(): void {
    if (--this.#questions === 0) this.#writeHeld();
  }

  /** Prints the rest. */
  end(): void {
    this.#writeHeld();
    for (const stream of ["stdout", "stderr"] as const) {
      const text = this.#colors[stream].end();
      if (text !== "") this.#write({ type: "chunk", stream, text });
    }
    this.endLine();
  }

  endLine(): void {
    if (this.#open === "stdout") this.#io.out("\n");
    if (this.#open === "stderr") this.#io.errText("\n");
    this.#open = undefined;
  }

  #writeHeld(): void {
    for (const chunk of this.#held.splice(0)) this.#write(chunk);
    this.#room = MAX_UNREAD;
    if (this.#leftOut === 0) return;
    this.endLine();
    this.#io.err(`[ipybox: ${this.#leftOut} characters printed during a question were dropped]`);
    this.#leftOut = 0;
  }

  #write(chunk: ChunkEvent): void {
    const { stream, text, isResult = false } = chunk;
    const isTerminal = stream === "stdout" ? this.#io.stdoutIsTerminal : this.#io.stderrIsTerminal;
    const shown = isTerminal ? this.#shown(chunk) : text;
    if (shown === "") return; // the start of a color, or its end
    if (stream === "stdout") this.#io.out(isTerminal ? this.#labelled(shown, isResult) : shown);
    else this.#io.errText(shown);
    if (stream === "stdout" || isTerminal) this.#open = shown.endsWith("\n") ? undefined : stream;
  }

  /** A chunk's text, made safe for a terminal; a value begins without colors. */
  #shown({ stream, text, isResult = false, file }: ChunkEvent): string {
    if (file !== undefined && this.#io.links) {
      return text.split(file).map(printable).join(fileLink(file, this.#io));
    }
    if (!this.#io.color) return printableOutput(text);
    const colors = this.#colors[stream];
    return (isResult ? colors.end() : "") + colors.show(text);
  }

  /** Puts a label before a value; several lines start below it, so that columns stay aligned. */
  #labelled(text: string, isResult: boolean): string {
    if (!isResult || this.#resultLabel === "") return text;
    const value = text.replace(/^\n/, ""); // ends a line that the code left unfinished
    const gap = value.includes("\n") ? "\n" : " ";
    return `${text.slice(0, text.length - value.length)}${this.#resultLabel}${gap}${value}`;
  }
}

/** How Python itself would exit after `sys.exit()`. */
function exitOf({ status, error }: Outcome): { code: number; message?: string } | undefined {
  if (status !== "error" || error?.ename !== "SystemExit") return undefined;
  const { evalue } = error;
  // Like the system, only the lowest eight bits count.
  if (/^-?\d{1,15}$/.test(evalue)) return { code: Number(BigInt.asUintN(8, BigInt(evalue))) };
  return { code: EXIT.failed, message: evalue };
}

function outcomeOf(error: unknown): Outcome | undefined {
  const ended = error instanceof CodeExecutionError || error instanceof ExecutionTimeoutError ||
    error instanceof KernelDiedError;
  if (!ended) return undefined;
  const { text, images, outputs, wholeText } = error;
  const shown = { text, images, outputs, ...(wholeText === undefined ? {} : { wholeText }) };
  if (error instanceof CodeExecutionError) {
    const { ename, evalue, traceback } = error;
    // A script may end with sys.exit(): only its argument says whether it succeeded.
    if (ename === "SystemExit" && ["", "0", "None"].includes(evalue)) {
      return { status: "ok", ...shown };
    }
    return { status: "error", ...shown, error: { ename, evalue, traceback } };
  }
  const { name: ename, message: evalue } = error;
  const status = error instanceof ExecutionTimeoutError ? "timeout" : "died";
  return { status, ...shown, error: { ename, evalue } };
}
