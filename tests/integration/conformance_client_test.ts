/** The official conformance suite against our client. */
import { assertEquals } from "@std/assert";
import { TempFolder } from "../support/temp_folder.ts";

const SUITE = "npm:@modelcontextprotocol/conformance@0.2.0-alpha.12";

/** Extensions of the protocol that are run with each set of requirements but not in it. */
const WITHOUT: readonly string[] = [
  "auth/dpop",
  "auth/dpop-nonce",
  "auth/enterprise-managed-authorization",
  "auth/wif-jwt-bearer",
];

const fixtures = new URL("../fixtures/mcp/", import.meta.url).pathname;

/** A process that plays all scenarios. */
class Client implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #output: ReadableStreamDefaultReader<string>;

  private constructor(child: Deno.ChildProcess, readonly folder: TempFolder) {
    this.#child = child;
    this.#output = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  }

  static async start(): Promise<Client> {
    const folder = await TempFolder.create();
    const child = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--quiet", `${fixtures}conformance_client.ts`],
      env: { XDG_STATE_HOME: folder.path },
      stdout: "piped",
    }).spawn();
    return new Client(child, folder);
  }

  /** What the suite runs for each scenario. */
  async command(): Promise<string> {
    const { value = "" } = await this.#output.read();
    const url = `http://127.0.0.1:${value.trim()}`;
    return `${Deno.execPath()} run -A --no-config ${fixtures}conformance_scenario.ts ${url}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill();
    await this.#output.cancel();
    await this.#child.status;
    await this.folder[Symbol.asyncDispose]();
  }
}

interface SuiteEnd {
  readonly code: number;
  readonly output: string;
  /** Whether each scenario passed, by its name. */
  readonly passed: ReadonlyMap<string, boolean>;
}

async function run(client: string, args: readonly string[]): Promise<SuiteEnd> {
  await using folder = await TempFolder.create();
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "-A", "--quiet", "--no-config", "--no-lock", SUITE, "client"],
      ...["--command", client, "-o", folder.path, "--timeout", "120000", ...args],
    ],
    env: { NO_COLOR: "1" },
    signal: AbortSignal.timeout(5 * 60_000), // it waits forever for a client that does not end
  }).output();
  const decoder = new TextDecoder();
  const summary = decoder.decode(stdout).matchAll(/^([✓✗]) (\S+): \d+ passed/gmu);
  const passed = new Map([...summary].map(([, mark, name = ""]) => [name, mark === "✓"] as const));
  return { code, output: decoder.decode(stdout) + decoder.decode(stderr), passed };
}

Deno.test("conformance of the client", async (t) => {
  await using client = await Client.start();
  const command = await client.command();

  for (const [version, atLeast] of [["2025-11-25", 18], ["2026-07-28", 32]] as const) {
    await t.step(`all that ${version} requires`, async () => {
      const { code, output, passed } = await run(command, ["--requirements", version]);

      assertEquals(code, 0, output);
      const failed = [...passed].filter(([, good]) => !good).map(([name]) => name);
      assertEquals(failed.sort(), WITHOUT, output);
      assertEquals(passed.size - failed.length >= atLeast, true, output);
    });
  }

  // The suite's older line, 0.1, has nothing else that is not among these.
  await t.step("a server of 2025-03-26 without metadata", async () => {
    const args = ["--scenario", "auth/2025-03-26-oauth-endpoint-fallback"];
    const { code, output } = await run(command, args);

    assertEquals(code, 0, output);
  });
});
