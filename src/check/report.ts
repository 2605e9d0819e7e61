import { CodeExecutionError } from "../base/errors.ts";
import type { BadSyntax } from "./inspection.ts";
import type { CodeProblem } from "./problems.ts";

/** A tool that code names. */
export interface NamedTool {
  /** The server's name. */
  readonly server: string;
  /** The tool's module in `mcptools`; empty where the code only names the server. */
  readonly module: string;
}

/** How many of the tools that code names are shown to people, and how many characters of each. */
const MAX_NAMES = 20;
const MAX_NAME = 100;

/** The tools that code names, as shown to people. Code can name any number of any length. */
export function shownNames(tools: readonly NamedTool[]): string[] {
  const shown = tools.slice(0, MAX_NAMES).map(({ server, module }) => {
    const name = module === "" ? server : `${server}.${module}`;
    return name.length <= MAX_NAME ? name : `${name.slice(0, MAX_NAME)}…`;
  });
  const rest = tools.length - shown.length;
  return rest === 0 ? shown : [...shown, `${rest} more`];
}

/**
 * The findings of a check of code.
 *
 * @example
 * ```ts
 * import { CodeExecutor } from "@ipybox/ipybox";
 *
 * await using executor = await CodeExecutor.start();
 * const report = await executor.check("print(nmae)");
 * if (report.problems.length > 0) console.error(`${report}`); // as Python would show it
 * ```
 */
export class CheckReport {
  /** Failures that happen every time the code runs, in the order of the code. */
  readonly problems: readonly CodeProblem[];
  /** Possible failures, such as an argument that may be `None`. */
  readonly notes: readonly CodeProblem[];
  /** The tools that the code names. Nothing verifies this claim of the code. */
  readonly tools: readonly NamedTool[];
  /** Whether the check is complete. It is not if it took too long or ty is not installed. */
  readonly isComplete: boolean;
  readonly #lines: readonly string[];
  readonly #file: string | null;

  /**
   * Created by ipybox; not for direct construction.
   *
   * @param parts What was found.
   * @param parts.text The code that was checked.
   * @param parts.file The file that the code was read from.
   */
  constructor(
    { problems, notes, tools, isComplete, text, file = null }:
      & Pick<
        CheckReport,
        "problems" | "notes" | "tools" | "isComplete"
      >
      & { readonly text: string; readonly file?: string | null },
  ) {
    this.problems = problems;
    this.notes = notes;
    this.tools = tools;
    this.isComplete = isComplete;
    this.#lines = text.split("\n");
    this.#file = file;
  }

  /**
   * The exception that the code ends with instead of running.
   *
   * @returns The exception, or `undefined` if nothing is certain to fail.
   */
  error(): CodeExecutionError | undefined {
    const [first] = this.problems;
    if (first === undefined) return undefined;
    const outcome =
      "[ipybox] Found before the code ran: nothing was executed, and no tool was called";
    return new CodeExecutionError(first.ename, first.evalue, `${this}\n${outcome}`);
  }

  /**
   * The problems, as Python would show them.
   *
   * @returns A traceback of several lines.
   */
  toString(): string {
    const problems = this.problems.slice(0, MAX_SHOWN);
    const more = this.problems.length - problems.length;
    const parts = problems.flatMap((problem, index) => [
      ...(problem.line === problems[index - 1]?.line ? [] : [this.#sourceOf(problem)]),
      `${problem.ename}: ${problem.evalue}`,
    ]);
    const rest = more > 0 ? [`… and ${more} more`] : [];
    return ["Traceback (most recent call last):", ...parts, ...rest].join("\n");
  }

  /** A line of code, with carets below the problem. */
  #sourceOf({ line, column, endLine, endColumn }: CodeProblem): string {
    const source = this.#lines[line] ?? "";
    const indent = source.length - source.trimStart().length;
    // Of a long line, show the part around the problem.
    const start = Math.max(Math.min(indent, column), column - MAX_BEFORE);
    const shown = source.slice(start, start + MAX_WIDTH).trimEnd();
    const end = endLine === line ? endColumn : source.length;
    const carets = Math.max(1, Math.min(end - column, shown.length - (column - start)));
    return [
      this.#file === null ? `  Cell, line ${line + 1}` : `  File ${this.#file}:${line + 1}`,
      `    ${shown}`,
      `    ${" ".repeat(column - start)}${"^".repeat(carets)}`,
    ].join("\n");
  }
}

/** The report on code that was not checked. */
export const UNCHECKED: CheckReport = new CheckReport({
  problems: [],
  notes: [],
  tools: [],
  isComplete: false,
  text: "",
});

/** The report on code with a syntax error. */
export function reportOfSyntax(
  { file, name, message, line, column, source }: BadSyntax,
): CheckReport {
  const at = { line: Math.max(0, line - 1), column: Math.max(0, column - 1) };
  const problem = {
    ...at,
    endLine: at.line,
    endColumn: at.column + 1,
    ename: name,
    evalue: message,
  };
  const text = "\n".repeat(at.line) + source;
  return new CheckReport({
    problems: [problem],
    notes: [],
    tools: [],
    isComplete: true,
    text,
    file,
  });
}

/** Nobody fixes more at a time. */
const MAX_SHOWN = 5;
const MAX_WIDTH = 160;
const MAX_BEFORE = 100;
