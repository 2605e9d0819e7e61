/**
 * The official conformance suite against our client. The scenarios on authorization are left out:
 * there is no OAuth yet.
 */
import { assertEquals } from "@std/assert";
import { TempFolder } from "../support/temp_folder.ts";

const SUITE = "npm:@modelcontextprotocol/conformance@0.2.0-alpha.12";
const OLDER_SUITE = "npm:@modelcontextprotocol/conformance@0.1.16";

const SCENARIOS: Readonly<Record<string, readonly string[]>> = {
  "2025-11-25": ["initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"],
  "2026-07-28": [
    "tools_call",
    "request-metadata",
    "sep-2322-client-request-state",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
  ],
};

const root = new URL("../../", import.meta.url).pathname;
const client = `${Deno.execPath()} run -A --no-lock --config=${root}deno.json ` +
  `${root}tests/fixtures/mcp/conformance_client.ts`;

async function run(suite: string, scenario: string, args: readonly string[]): Promise<void> {
  await using folder = await TempFolder.create();
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "-A", "--quiet", "--no-config", "--no-lock", suite, "client"],
      ...["--command", client, "--scenario", scenario, "-o", folder.path, ...args],
    ],
  }).output();
  const decoder = new TextDecoder();
  assertEquals(code, 0, decoder.decode(stdout) + decoder.decode(stderr));
}

for (const [version, scenarios] of Object.entries(SCENARIOS)) {
  for (const scenario of scenarios) {
    Deno.test(`conformance ${version}: ${scenario}`, async () => {
      await run(SUITE, scenario, ["--spec-version", version]);
    });
  }
}

for (const scenario of SCENARIOS["2025-11-25"] ?? []) {
  Deno.test(`conformance, the suite's older line: ${scenario}`, async () => {
    await run(OLDER_SUITE, scenario, []);
  });
}
