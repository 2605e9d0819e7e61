import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { ProcessEvidence } from "../../src/errors.ts";
import type { GatewayAddress } from "../../src/kernel/client.ts";
import { testPython } from "./python.ts";

/** Without Nagle's algorithm, whose stall the launcher keeps away from real executions. */
const GATEWAY = `
from tornado.iostream import IOStream
set_nodelay = IOStream.set_nodelay
IOStream.set_nodelay = lambda self, value: set_nodelay(self, True)
init = IOStream.__init__
def init_without_delay(self, *args, **kwargs):
    init(self, *args, **kwargs)
    self.set_nodelay(True)
IOStream.__init__ = init_without_delay
from kernel_gateway import launch_instance
launch_instance()
`;

/** A kernel gateway without sandbox and launcher, in a folder of its own, which disposing removes. */
export class PlainGateway implements GatewayAddress, AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly exited: Promise<ProcessEvidence>;
  stderrTail = "";

  private constructor(
    child: Deno.ChildProcess,
    readonly url: URL,
    readonly token: string,
    readonly workspace: string,
  ) {
    this.#child = child;
    const stderr = this.#readStderr();
    this.exited = Promise.all([child.status, stderr]).then(([{ code, signal }]) => ({
      exitCode: signal === null ? code : null,
      signal,
      stderrTail: this.stderrTail,
    }));
  }

  static async start(env: Record<string, string> = {}): Promise<PlainGateway> {
    const workspace = await Deno.realPath(await Deno.makeTempDir());
    const token = crypto.randomUUID();
    const port = freePort();
    const runtime = fileURLToPath(new URL("../../templates/runtime", import.meta.url));
    const child = new Deno.Command(testPython(), {
      args: [
        "-c",
        GATEWAY,
        "--KernelGatewayApp.ip=127.0.0.1",
        `--KernelGatewayApp.port=${port}`,
        "--KernelGatewayApp.port_retries=0",
        "--ZMQChannelsWebsocketConnection.limit_rate=False",
        "--KernelRestarter.time_to_dead=0.1",
        "--KernelRestarter.restart_limit=0",
        "--KernelManager.shutdown_wait_time=1",
        "--log-level=ERROR",
      ],
      cwd: workspace,
      clearEnv: true,
      env: {
        PATH: Deno.env.get("PATH") ?? "",
        HOME: workspace,
        KG_AUTH_TOKEN: token,
        PYTHONPATH: runtime,
        PYTHONDONTWRITEBYTECODE: "1",
        MPLCONFIGDIR: join(workspace, ".mpl"),
        ...env,
      },
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    const gateway = new PlainGateway(child, new URL(`http://127.0.0.1:${port}`), token, workspace);
    try {
      await gateway.#untilAnswers();
      return gateway;
    } catch (error) {
      await gateway[Symbol.asyncDispose]();
      throw error;
    }
  }

  get pid(): number {
    return this.#child.pid;
  }

  kill(signal: Deno.Signal): void {
    this.#child.kill(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.#child.kill("SIGTERM");
    } catch {
      // It has ended already.
    }
    await this.exited;
    await Deno.remove(this.workspace, { recursive: true });
  }

  async #untilAnswers(): Promise<void> {
    let ended = false;
    this.exited.then(() => ended = true);
    for (const deadline = Date.now() + 60_000; Date.now() < deadline && !ended;) {
      try {
        const headers = { Authorization: `token ${this.token}` };
        const response = await fetch(new URL("api", this.url), { headers });
        await response.body?.cancel();
        if (response.ok) return;
      } catch (error) {
        if (!(error instanceof TypeError)) throw error; // as long as nothing listens
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error(`The gateway did not start:\n${this.stderrTail}`);
  }

  async #readStderr(): Promise<void> {
    const text = this.#child.stderr.pipeThrough(new TextDecoderStream());
    for await (const part of text) this.stderrTail = (this.stderrTail + part).slice(-16_384);
  }
}

function freePort(): number {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  using _ = { [Symbol.dispose]: () => listener.close() };
  return listener.addr.port;
}
