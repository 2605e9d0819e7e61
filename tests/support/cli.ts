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
  readonly env?: Readonly<Record<string, string>>;
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
  const { env = {}, stdin, cwd } = options;
  const child = new Deno.Command(Deno.execPath(), {
    args: [...cliArguments, ...args],
    env: { NO_COLOR: "1", ...env },
    ...(cwd === undefined ? {} : { cwd }),
    stdin: stdin === undefined ? "null" : "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  if (stdin !== undefined) {
    const writer = child.stdin.getWriter();
    await writer.write(new TextEncoder().encode(stdin));
    await writer.close();
  }
  const { code, stdout, stderr } = await child.output();
  const decoder = new TextDecoder();
  return { code, stdout: decoder.decode(stdout), stderr: withoutNotices(decoder.decode(stderr)) };
}

/** What Deno is given before ipybox's own arguments. */
export const cliArguments: readonly string[] = ["run", "-A", "--quiet", cli];

/** Leaves out that the tests run as root, which is so on some machines only. */
function withoutNotices(stderr: string): string {
  return stderr.replace(/^ipybox: warning: (Running as root: |Code runs as root there: ).*\n/m, "");
}
