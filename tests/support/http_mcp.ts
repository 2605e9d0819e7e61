import { cliArguments } from "./cli.ts";
import type { HttpAddress } from "./mcp_client.ts";
import { TempCache } from "./temp_cache.ts";

/** Options of {@linkcode HttpMcp.start}. */
export interface HttpMcpOptions {
  /** The user's cache folder, where a test looks into it. */
  readonly cache?: TempCache;
  /** Variables beside those of the tests. */
  readonly env?: Readonly<Record<string, string>>;
  /** Its port, where a server before had it. */
  readonly port?: string;
  /** How many files and connections it may have open. */
  readonly maxFiles?: number;
}

/** An `ipybox mcp --http` of a test's own. Disposing ends it by SIGTERM. */
export class HttpMcp implements AsyncDisposable {
  readonly #process: Deno.ChildProcess;
  readonly #parts: AsyncDisposableStack;
  readonly #said: string[];

  private constructor(
    process: Deno.ChildProcess,
    parts: AsyncDisposableStack,
    readonly address: HttpAddress,
    said: string[],
  ) {
    this.#said = said;
    this.#process = process;
    this.#parts = parts;
  }

  /** The id of its process. */
  get pid(): number {
    return this.#process.pid;
  }

  /**
   * Starts one and waits until it says where it is.
   *
   * @param args Arguments after `ipybox mcp --http 0`.
   * @param options Where it caches, and limits.
   * @returns The running server.
   * @throws {Error} It ended instead; its stderr says why.
   */
  static async start(args: readonly string[], options: HttpMcpOptions = {}): Promise<HttpMcp> {
    await using parts = new AsyncDisposableStack();
    const { env, maxFiles, port = "0" } = options;
    const cache = options.cache ?? parts.use(await TempCache.create());
    const command = [Deno.execPath(), ...cliArguments, "mcp", "--http", port, ...args];
    const [program = "", ...rest] = maxFiles === undefined
      ? command
      : ["sh", "-c", `ulimit -n ${maxFiles} && exec "$@"`, "sh", ...command];
    const process = new Deno.Command(program, {
      args: rest,
      env: { NO_COLOR: "1", ...cache.env, ...env },
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    const [shown, others] = process.stderr.pipeThrough(new TextDecoderStream()).tee();
    const said: string[] = [];
    const drained = others.pipeTo(new WritableStream({ write: (piece) => void said.push(piece) }));
    parts.defer(() => drained);
    parts.defer(async () => {
      end(process, "SIGTERM");
      await process.status;
    });
    let text = "";
    for await (const piece of shown.values({ preventCancel: true })) {
      text += piece;
      const url = /^Serving MCP at (\S+)$/m.exec(text)?.[1];
      const token = /^Bearer token: (\S+)$/m.exec(text)?.[1];
      const ready = token !== undefined ||
        args.some((arg) => /^--(no-token|token-file)$/.test(arg));
      if (url === undefined || !ready || !text.endsWith("\n")) continue;
      return new HttpMcp(process, parts.move(), { url: new URL(url), token: token ?? "" }, said);
    }
    throw new Error(`ipybox mcp --http ended: ${text}`);
  }

  /** What it has written to stderr. */
  get stderr(): string {
    return this.#said.join("");
  }

  /** Ends it. */
  async stop(signal: Deno.Signal): Promise<Deno.CommandStatus> {
    end(this.#process, signal);
    return await this.#process.status;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts.disposeAsync();
  }
}

function end(process: Deno.ChildProcess, signal: Deno.Signal): void {
  try {
    process.kill(signal);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; // it has ended already
  }
}
