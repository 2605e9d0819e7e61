/**
 * Durable sessions of tests: a workspace, hosts of their own processes, and a server that notes its calls.
 *
 * @module
 */
import { silentLogger } from "../../src/base/log.ts";
import { settledWithin } from "../../src/base/signals.ts";
import { CodeExecutor } from "../../src/executor/code_executor.ts";
import type { AttachOptions, CodeExecutorOptions } from "../../src/executor/options.ts";
import { ManagedProcess } from "../../src/process/managed_process.ts";
import { ownProgram } from "../../src/process/program.ts";
import { rawServer } from "./mcp.ts";
import { testPython } from "./python.ts";
import { TempFolder } from "./temp_folder.ts";
import { until } from "./wait.ts";

export const CALLS = 8;
export const PARALLEL = `
import asyncio
from ipybox_runtime import ToolRunner
raw = ToolRunner("raw")
before = 40
async def call(n):
    try:
        return (await raw.run("mark", {"name": str(n), "ms": 100})).text and "done"
    except Exception as error:
        return type(error).__name__
outcomes = await asyncio.gather(*map(call, range(${CALLS})))
print(",".join(outcomes), before + 2)
`;

/** A session in a workspace of its own. Disposing ends it. */
export class TestSession implements AsyncDisposable {
  readonly #parts: AsyncDisposableStack;
  readonly effects: string;

  private constructor(
    parts: AsyncDisposableStack,
    readonly workspace: string,
    readonly placement: CodeExecutorOptions["placement"],
  ) {
    this.#parts = parts;
    this.effects = `${workspace}-effects`;
  }

  static async create(placement?: CodeExecutorOptions["placement"]): Promise<TestSession> {
    await using parts = new AsyncDisposableStack();
    const { path } = parts.use(await TempFolder.create());
    const session = new TestSession(parts.move(), path, placement);
    session.#parts.defer(async () => {
      await Deno.remove(session.effects).catch(() => {}); // where no call was made
    });
    return session;
  }

  /** Starts a host of its own process. */
  host(decide: string, how: "start" | "attach", what: string): Host {
    const { workspace, effects, placement } = this;
    const host = new Host([workspace, effects, decide, how, what], placement, this.#python);
    return this.#parts.use(host);
  }

  /** The Python of kernels: images have their own. */
  get #python(): string | undefined {
    const { type = "" } = this.placement ?? {};
    return ["docker", "podman", "kubernetes"].includes(type) ? undefined : testPython();
  }

  options() {
    return { servers: { raw: rawServer("normal", this.effects) }, log: silentLogger };
  }

  async attach(id: string, more: AttachOptions = {}): Promise<CodeExecutor> {
    return this.#parts.use(
      await CodeExecutor.attach(id, { ...this.options(), python: this.#python, ...more }),
    );
  }

  /** Whether code has made a file in the workspace. */
  async has(name: string): Promise<boolean> {
    return await Deno.stat(`${this.workspace}/${name}`).then(() => true, () => false);
  }

  async start(more: CodeExecutorOptions = {}): Promise<CodeExecutor> {
    const { workspace, placement } = this;
    const durable = { idleMs: 120_000 };
    const common = { ...this.options(), workspace, placement, durable, python: this.#python };
    const options = { ...common, ...more };
    return this.#parts.use(await CodeExecutor.start(options));
  }

  /** How often each call reached its server. */
  async sent(): Promise<number[]> {
    const text = await Deno.readTextFile(this.effects).catch(() => "");
    const lines = text.split("\n");
    return Array.from(
      { length: CALLS },
      (_, n) => lines.filter((line) => line === `mark ${n}`).length,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts.disposeAsync();
  }
}

const HOST = new URL("../fixtures/durable_host.ts", import.meta.url).pathname;

/** A host in a process of its own. */
export class Host implements AsyncDisposable {
  readonly #process: ManagedProcess;
  readonly lines: string[] = [];
  #over = false;

  constructor(
    args: readonly string[],
    placement: CodeExecutorOptions["placement"],
    python: string | undefined,
  ) {
    const elsewhere = placement && { TEST_PLACEMENT: JSON.stringify({ placement, python }) };
    this.#process = ManagedProcess.spawn({
      command: ownProgram(),
      args: ["run", "-A", HOST, ...args],
      env: { ...Deno.env.toObject(), IPYBOX_PYTHON: testPython(), ...elsewhere },
    });
    this.#read();
  }

  async #read(): Promise<void> {
    const decoder = new TextDecoder();
    let open = "";
    for (;;) {
      const bytes = await this.#process.pipes.read();
      if (bytes === null) {
        this.#over = true;
        return;
      }
      const lines = (open + decoder.decode(bytes, { stream: true })).split("\n");
      open = lines.pop() ?? "";
      this.lines.push(...lines);
    }
  }

  /** Waits until it has said something so many times. */
  async said(what: string, times = 1): Promise<string> {
    const said = () => this.lines.filter((line) => line.startsWith(what));
    await until(() => said().length >= times || this.#over);
    if (said().length < times) throw new Error(`The host has ended: ${this.#process.stderrTail}`);
    return said()[0]?.slice(what.length + 1) ?? "";
  }

  async kill(): Promise<void> {
    Deno.kill(this.#process.pid, "SIGKILL");
    await this.ended();
  }

  async ended(): Promise<void> {
    if (!await settledWithin(this.#process.exited, 90_000)) throw new Error("The host goes on");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process.stop();
  }
}

/** Follows the execution of a session to its end, and accepts what it asks. */
export async function follow(executor: CodeExecutor): Promise<string | null> {
  for await (const event of executor.resume()) {
    if (event.type === "approval") await event.request.accept();
    if (event.type === "result") return event.result.text;
  }
  return null;
}
