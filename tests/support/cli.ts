/**
 * The command line as a user has it: a process of its own.
 *
 * @module
 */
import { fileURLToPath } from "node:url";

const cli = fileURLToPath(new URL("../../cli.ts", import.meta.url));

/** How a command ended. */
export interface CliEnd {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Options of {@linkcode ipybox}. */
export interface CliOptions {
  /** Variables beside those of the tests. */
  readonly env?: Record<string, string>;
  /** What it reads from stdin, which else has nothing. */
  readonly stdin?: string;
  /** Its working directory. */
  readonly cwd?: string;
}

/**
 * Runs `ipybox`.
 *
 * @param args Its arguments.
 * @param options Its environment and input.
 * @returns How it ended.
 */
export async function ipybox(args: readonly string[], options: CliOptions = {}): Promise<CliEnd> {
  const { stdin, ...where } = options;
  const child = startIpybox(args, { ...where, stdin: stdin === undefined ? "null" : "piped" });
  if (stdin !== undefined) {
    const writer = child.stdin.getWriter();
    await writer.write(new TextEncoder().encode(stdin));
    await writer.close();
  }
  const { code, stdout, stderr } = await child.output();
  const decoder = new TextDecoder();
  return { code, stdout: decoder.decode(stdout), stderr: withoutNotices(decoder.decode(stderr)) };
}

/** Starts `ipybox`, by default without stdin, and with its output in pipes. */
export function startIpybox(
  args: readonly string[],
  { env, ...options }: Omit<Deno.CommandOptions, "args"> = {},
): Deno.ChildProcess {
  return new Deno.Command(Deno.execPath(), {
    args: [...cliArguments, ...args],
    env: { NO_COLOR: "1", ...env },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
    ...options,
  }).spawn();
}

/** What Deno is given before ipybox's own arguments. */
export const cliArguments: readonly string[] = ["run", "-A", "--quiet", cli];

/** Leaves out that the tests run as root, which is so on some machines only. */
export function withoutNotices(stderr: string): string {
  return stderr.replace(/^ipybox: warning: (Running as root: |Code runs as root there: ).*\n/m, "");
}
