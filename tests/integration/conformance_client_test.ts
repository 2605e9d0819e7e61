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

const root = new URL("../../", import.meta.url).pathname;
const client = `${Deno.execPath()} run -A --no-lock --config=${root}deno.json ` +
  `${root}tests/fixtures/mcp/conformance_client.ts`;

interface SuiteEnd {
  readonly code: number;
  readonly output: string;
  /** Whether each scenario passed, by its name. */
  readonly passed: ReadonlyMap<string, boolean>;
}

async function run(args: readonly string[]): Promise<SuiteEnd> {
  await using folder = await TempFolder.create();
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "-A", "--quiet", "--no-config", "--no-lock", SUITE, "client"],
      ...["--command", client, "-o", folder.path, "--timeout", "120000", ...args],
    ],
    env: { NO_COLOR: "1", XDG_STATE_HOME: folder.path },
    signal: AbortSignal.timeout(5 * 60_000), // it waits forever for a client that does not end
  }).output();
  const decoder = new TextDecoder();
  const summary = decoder.decode(stdout).matchAll(/^([✓✗]) (\S+): \d+ passed/gmu);
  const passed = new Map([...summary].map(([, mark, name = ""]) => [name, mark === "✓"] as const));
  return { code, output: decoder.decode(stdout) + decoder.decode(stderr), passed };
}

for (const [version, atLeast] of [["2025-11-25", 18], ["2026-07-28", 32]] as const) {
  Deno.test(`conformance: all that ${version} requires of a client`, async () => {
    const { code, output, passed } = await run(["--requirements", version]);

    assertEquals(code, 0, output);
    const failed = [...passed].filter(([, good]) => !good).map(([name]) => name);
    assertEquals(failed.sort(), WITHOUT, output);
    assertEquals(passed.size - failed.length >= atLeast, true, output);
  });
}

// The suite's older line, 0.1, has nothing else that is not among these.
Deno.test("conformance: a server of 2025-03-26 without metadata", async () => {
  const { code, output } = await run(["--scenario", "auth/2025-03-26-oauth-endpoint-fallback"]);

  assertEquals(code, 0, output);
});
