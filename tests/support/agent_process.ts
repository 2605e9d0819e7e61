import { z } from "zod";

/** What programs write: a line of JSON. */
export type Message = Readonly<Record<string, unknown>>;

const messageSchema: z.ZodType<Message> = z.looseObject({});

/** How an agent program is started. */
export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** All of its environment. */
  readonly env: Readonly<Record<string, string>>;
}

/** However slow a machine: what hangs has to end. */
const LONGEST_MS = 180_000;

/**
 * A program that is talked to by lines of JSON, or by lines. It is killed when it takes too long, so
 * that all waits for it end. Disposing ends it: its input first, as a user's would.
 */
export class AgentProcess implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #input: WritableStreamDefaultWriter<Uint8Array>;
  readonly #lines: ReadableStreamDefaultReader<string>;
  readonly #stderr: Promise<string>;
  readonly #alarm: ReturnType<typeof setTimeout>;
  #rest = "";

  private constructor(child: Deno.ChildProcess) {
    this.#child = child;
    this.#input = child.stdin.getWriter();
    this.#lines = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
    this.#stderr = new Response(child.stderr).text();
    this.#alarm = setTimeout(() => child.kill("SIGKILL"), LONGEST_MS);
  }

  /** Starts it. */
  static start({ command, args, cwd, env }: Launch): AgentProcess {
    return new AgentProcess(
      new Deno.Command(command, {
        args: [...args],
        cwd,
        env,
        clearEnv: true,
        stdin: "piped",
        stdout: "piped",
        stderr: "piped",
      }).spawn(),
    );
  }

  /** Sends a line of JSON. */
  async send(message: Message): Promise<void> {
    await this.#input.write(new TextEncoder().encode(`${JSON.stringify(message)}\n`));
  }

  /** Sends a signal. */
  signal(name: Deno.Signal): void {
    this.#child.kill(name);
  }

  /**
   * Reads on until a line matches. One wait at a time.
   *
   * @throws {Error} It has ended; its stderr says why.
   */
  async line(matches: (line: string) => boolean): Promise<string> {
    for (;;) {
      const end = this.#rest.indexOf("\n");
      if (end === -1) {
        const { value, done } = await this.#lines.read();
        if (done) throw new Error(`It ended: ${this.#rest}\n${(await this.#stderr).slice(-4000)}`);
        this.#rest += value;
        continue;
      }
      const line = this.#rest.slice(0, end);
      this.#rest = this.#rest.slice(end + 1);
      if (matches(line)) return line;
    }
  }

  /** Reads on until a message matches. */
  async message(matches: (message: Message) => boolean): Promise<Message> {
    let found: Message = {};
    await this.line((line) => {
      if (!line.startsWith("{")) return false;
      found = messageSchema.parse(JSON.parse(line));
      return matches(found);
    });
    return found;
  }

  /** Waits until it ends by itself, its input closed. */
  async ended(): Promise<Deno.CommandStatus> {
    await this.#input.close().catch(() => {}); // it may have ended before
    while (!(await this.#lines.read()).done);
    return await this.#child.status;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.ended();
    clearTimeout(this.#alarm);
    await this.#stderr;
  }
}
