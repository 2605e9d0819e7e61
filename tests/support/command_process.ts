import { fileURLToPath } from "node:url";
import { writeAll } from "../../src/files/artifact_folder.ts";
import type { CliEnd } from "./cli.ts";
import { inThisProcess } from "./command_io.ts";

/** Where command lines run. */
export interface CommandProcessOptions {
  /** Variables beside those of the tests. */
  readonly env?: Record<string, string>;
  /** The working directory. */
  readonly cwd?: string;
}

/** A process that runs command lines in turn, which need variables or a working directory of their own. */
export class CommandProcess implements AsyncDisposable {
  readonly #process: Deno.ChildProcess;
  readonly #lines: WritableStreamDefaultWriter<Uint8Array>;
  readonly #ends: AsyncGenerator<string, void>;

  /** Starts it. */
  constructor(options: CommandProcessOptions = {}) {
    this.#process = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--quiet", "--no-check", fileURLToPath(import.meta.url)],
      ...options,
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    this.#lines = this.#process.stdin.getWriter();
    this.#ends = linesOf(this.#process.stdout);
  }

  /** Runs a command line without a terminal. */
  async run(args: readonly string[]): Promise<CliEnd> {
    await this.#lines.write(new TextEncoder().encode(`${JSON.stringify(args)}\n`));
    const { value } = await this.#ends.next();
    if (!value) throw new Error(`The process has ended with ${args.join(" ")}`);
    return JSON.parse(value);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#lines.close();
    await this.#ends.next(); // to its end
    await this.#process.status;
  }
}

async function* linesOf(bytes: ReadableStream<BufferSource>): AsyncGenerator<string, void> {
  let rest = "";
  for await (const piece of bytes.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + piece).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
}

if (import.meta.main) {
  for await (const line of linesOf(Deno.stdin.readable)) {
    const end = await inThisProcess(JSON.parse(line));
    writeAll(Deno.stdout, new TextEncoder().encode(`${JSON.stringify(end)}\n`));
  }
}
