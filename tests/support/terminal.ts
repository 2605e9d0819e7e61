/**
 * The command line at a pseudo-terminal.
 *
 * @module
 */
import { z } from "zod";
import { fileURLToPath } from "node:url";
import { shellWord } from "../../src/base/shell_word.ts";
import { cliArguments } from "./cli.ts";

const driver = fileURLToPath(new URL("../fixtures/at_terminal.py", import.meta.url));
const endSchema = z.object({
  code: z.number(),
  output: z.string(),
  parts: z.array(z.string()),
});

/** How a command at a terminal ended. */
export interface TerminalEnd {
  readonly code: number;
  /** All that stood on the terminal, what was typed included. */
  readonly output: string;
  /** What came until each thing that was waited for was seen, with it. */
  readonly parts: readonly string[];
}

/**
 * What is typed once something stands on the terminal. `null` closes the terminal.
 *
 * A line, which ends with `\n`, is the answer to a question: it is typed after the moment that reading
 * takes, and again where that was too early. Keys, and what begins with `!`, are typed at once. A
 * `mark` is a file that is then made, for code that must not go on before.
 */
export type Typing = readonly [expected: string, typed: string | null, mark?: string];

/** What a terminal is like. */
export interface TerminalOptions {
  /** How wide it is. */
  readonly columns?: number;
  /** Its working directory, in which marks are made. */
  readonly cwd?: string;
  /** Variables beside those of the tests. */
  readonly env?: Readonly<Record<string, string>>;
  /** Whether a shell starts it, which can stop it and go on. */
  readonly shell?: boolean;
}

/**
 * Runs `ipybox` at a terminal.
 *
 * @param args Its arguments.
 * @param script What the person there does, in order.
 * @param options What the terminal is like.
 * @returns How it ended.
 */
export async function ipyboxAtTerminal(
  args: readonly string[],
  script: readonly Typing[],
  options: TerminalOptions = {},
): Promise<TerminalEnd> {
  return await atTerminal([Deno.execPath(), ...cliArguments, ...args], script, options);
}

/**
 * Runs a program at a terminal.
 *
 * @param program The program and its arguments.
 * @param script What the person there does, in order.
 * @param options What the terminal is like.
 * @returns How it ended.
 */
export async function atTerminal(
  program: readonly string[],
  script: readonly Typing[],
  options: TerminalOptions = {},
): Promise<TerminalEnd> {
  const { columns = 80, cwd, env = {}, shell = false } = options;
  const line = program.map(shellWord).join(" ");
  const plan = shell
    ? { command: ["bash", "--norc", "-i"], script: [["", `!${line}\n`], ...script], columns }
    : { command: program, script, columns };
  const { stdout, stderr, success } = await new Deno.Command("python3", {
    args: [driver, JSON.stringify(plan)],
    env: { NO_COLOR: "1", TERM: "xterm", EDITOR: "", VISUAL: "", ...env },
    ...(cwd === undefined ? {} : { cwd }),
    stdin: "null",
  }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  return endSchema.parse(JSON.parse(new TextDecoder().decode(stdout)));
}
