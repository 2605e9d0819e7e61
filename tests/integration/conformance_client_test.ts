/** The official conformance suite against our client. */
import { assertEquals } from "@std/assert";
import { TempFolder } from "../support/temp_folder.ts";

const SUITE = "npm:@modelcontextprotocol/conformance@0.2.0-alpha.12";
const OLDER_SUITE = "npm:@modelcontextprotocol/conformance@0.1.16";

/** Extensions of the protocol that are run with each set of requirements but not in it. */
const WITHOUT: readonly string[] = [
  "auth/dpop",
  "auth/dpop-nonce",
  "auth/enterprise-managed-authorization",
  "auth/wif-jwt-bearer",
];

/** What the older line has and we do not do. */
const OLDER_WITHOUT: readonly string[] = [
  // Its metadata names another issuer than the address it is at, which the newer line wants refused.
  "auth/2025-03-26-oauth-metadata-backcompat",
  "auth/cross-app-access-complete-flow",
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

async function run(suite: string, args: readonly string[]): Promise<SuiteEnd> {
  await using folder = await TempFolder.create();
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "-A", "--quiet", "--no-config", "--no-lock", suite, "client"],
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
    const { code, output, passed } = await run(SUITE, ["--requirements", version]);

    assertEquals(code, 0, output);
    const failed = [...passed].filter(([, good]) => !good).map(([name]) => name);
    assertEquals(failed.sort(), WITHOUT, output);
    assertEquals(passed.size - failed.length >= atLeast, true, output);
  });
}

/** It measures how soon a client comes back, which two dozen clients at a time cannot do in time. */
const TIMED = "sse-retry";

Deno.test("conformance: the suite's older line", async () => {
  const { output, passed } = await run(OLDER_SUITE, ["--suite", "all"]);

  const failed = [...passed].filter(([, good]) => !good).map(([name]) => name);
  assertEquals(failed.filter((name) => name !== TIMED).sort(), OLDER_WITHOUT, output);
  assertEquals(passed.size >= 26, true, output);
  const alone = await run(OLDER_SUITE, ["--scenario", TIMED]);
  assertEquals(alone.code, 0, alone.output);
});
