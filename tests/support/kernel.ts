import { join } from "node:path";
import { KernelClient, type KernelClientOptions } from "../../src/kernel/client.ts";
import type { Execution } from "../../src/kernel/execution.ts";
import { PlainGateway } from "./plain_gateway.ts";

/** A kernel's client with a gateway of its own, for one test. */
export class TestKernel implements AsyncDisposable {
  private constructor(
    readonly gateway: PlainGateway,
    readonly client: KernelClient,
    readonly imagesDir: string,
  ) {}

  static async start(
    options: Partial<KernelClientOptions> & { env?: Record<string, string> } = {},
  ): Promise<TestKernel> {
    const { env = {}, ...clientOptions } = options;
    await using stack = new AsyncDisposableStack();
    const gateway = stack.use(await PlainGateway.start(env));
    const imagesDir = join(gateway.workspace, "images");
    const client = await KernelClient.start({ gateway, imagesDir, ...clientOptions });
    stack.move();
    return new TestKernel(gateway, client, imagesDir);
  }

  /** Runs code and returns its text. */
  async text(code: string): Promise<string | null> {
    return (await this.client.execute(code).result).text;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.client[Symbol.asyncDispose]();
    await this.gateway[Symbol.asyncDispose]();
  }
}

/** Waits until an execution has written some text. */
export async function untilText(execution: Execution, text: string): Promise<void> {
  const deadline = Date.now() + 30_000;
  while (!execution.partial().text?.includes(text)) {
    if (Date.now() > deadline) throw new Error(`The execution did not write ${text}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** What a promise rejects with. */
export async function rejection(promise: PromiseLike<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("The promise did not reject");
}
