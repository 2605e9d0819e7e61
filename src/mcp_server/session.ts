import { CodeExecutor } from "../executor/code_executor.ts";
import type { CodeExecutorOptions } from "../executor/options.ts";
import { EnvironmentNotReadyError } from "../errors.ts";
import { type Logger, stderrLogger } from "../log.ts";
import { buildPythonEnvironment, findPython } from "../python/environment.ts";
import { PackageFolder } from "../python/packages.ts";

/** What the tools of one MCP session work with. */
export interface SessionParts {
  readonly executor: CodeExecutor;
  readonly packages: PackageFolder;
}

/** Options of {@linkcode Session}. */
export type SessionOptions = Omit<CodeExecutorOptions, "packagesDir" | "signal">;

/**
 * One MCP session's kernel, which starts in the background. Disposing it ends the kernel.
 *
 * A start that failed is tried again by the next call that needs the kernel: its error says what the
 * user can do, and who has done it need not restart the client.
 */
export class Session implements AsyncDisposable {
  readonly #options: SessionOptions;
  readonly #log: Logger;
  readonly #closing = new AbortController();
  #parts: Promise<SessionParts> | undefined;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#log = options.log ?? stderrLogger();
    this.parts.catch((error: unknown) => {
      if (!this.#closing.signal.aborted) this.#log.error(`Cannot start the kernel: ${error}`);
    });
  }

  /** The running kernel and its packages. */
  get parts(): Promise<SessionParts> {
    this.#parts ??= this.#start().catch((error: unknown) => {
      this.#parts = undefined;
      throw error;
    });
    return this.#parts;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new DOMException("The session was closed", "AbortError"));
    const parts = await this.#parts?.catch(() => undefined); // its error has been told
    await parts?.executor[Symbol.asyncDispose]();
  }

  async #start(): Promise<SessionParts> {
    const { signal } = this.#closing;
    signal.throwIfAborted();
    const workspace = await Deno.realPath(this.#options.workspace ?? Deno.cwd());
    const python = await this.#python();
    const packages = await PackageFolder.open(workspace, python);
    const executor = await CodeExecutor.start({
      ...this.#options,
      workspace,
      python: python.executable,
      packagesDir: packages.path,
      signal,
    });
    return { executor, packages };
  }

  /** The Python that runs the kernel; the managed one is built where it is missing. */
  async #python(): ReturnType<typeof findPython> {
    const { python } = this.#options;
    try {
      return await findPython({ python, log: this.#log });
    } catch (error) {
      const named = python ?? (Deno.env.get("IPYBOX_PYTHON") || undefined);
      if (!(error instanceof EnvironmentNotReadyError) || named !== undefined) throw error;
      return await buildPythonEnvironment({
        onProgress: (line) => this.#log.warn(line),
        signal: this.#closing.signal,
      });
    }
  }
}
