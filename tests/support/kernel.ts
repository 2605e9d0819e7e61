import { join } from "node:path";
import { KernelClient } from "../../src/kernel/client.ts";
import type { KernelClientOptions } from "../../src/kernel/host.ts";
import type { Execution } from "../../src/kernel/execution.ts";
import { KernelGateway } from "../../src/kernel/gateway.ts";
import { testPython } from "./python.ts";
import { until } from "./wait.ts";

/** A gateway without sandbox, with a workspace of its own, which disposing removes. */
export class TestGateway implements AsyncDisposable {
  private constructor(readonly gateway: KernelGateway, readonly workspace: string) {}

  static async start(kernelEnv: Record<string, string> = {}): Promise<TestGateway> {
    const workspace = await Deno.realPath(await Deno.makeTempDir());
    const gateway = await KernelGateway.start({
      python: testPython(),
      workspace,
      kernelEnv,
      sandbox: false,
    });
    return new TestGateway(gateway, workspace);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.gateway[Symbol.asyncDispose]();
    await Deno.remove(this.workspace, { recursive: true });
  }
}

/** A kernel's client with a gateway of its own, for one test. */
export class TestKernel implements AsyncDisposable {
  readonly #own: TestGateway;

  private constructor(gateway: TestGateway, readonly client: KernelClient) {
    this.#own = gateway;
  }

  /** Starts a gateway and a kernel, with no spare one unless that is asked for. */
  static async start(
    options: Partial<KernelClientOptions> & {
      kernelEnv?: Record<string, string>;
      spareKernel?: boolean;
    } = {},
  ): Promise<TestKernel> {
    const { kernelEnv = {}, ...given } = options;
    await using stack = new AsyncDisposableStack();
    const own = stack.use(await TestGateway.start(kernelEnv));
    const imagesDir = join(own.workspace, "images");
    const defaults = { gateway: own.gateway, imagesDir, spareKernel: false };
    const client = await KernelClient.start({ ...defaults, ...given });
    stack.move();
    return new TestKernel(own, client);
  }

  get gateway(): KernelGateway {
    return this.#own.gateway;
  }

  get workspace(): string {
    return this.#own.workspace;
  }

  /** Runs code and returns its text. */
  async text(code: string): Promise<string | null> {
    return (await this.client.execute(code).result).text;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.client[Symbol.asyncDispose]();
    await this.#own[Symbol.asyncDispose]();
  }
}

/** Waits until an execution has written some text. */
export async function untilText(execution: Execution, text: string): Promise<void> {
  await until(text, () => execution.partial().text?.includes(text) ?? false);
}
