/**
 * The official conformance suite against our server over HTTP: what it asks for is made by cells.
 */
import { assertEquals } from "@std/assert";
import { ConformanceServer } from "../fixtures/mcp/conformance_server.ts";
import { TempFolder } from "../support/temp_folder.ts";

const SUITE = "npm:@modelcontextprotocol/conformance@0.2.0-alpha.12";
/** Ten times what the longest one takes. */
const MAX_MS = 300_000;
const OLDER_SUITE = "npm:@modelcontextprotocol/conformance@0.1.16";

for (
  const { name, suite, args } of [
    { name: "all that 2025-11-25 requires", suite: SUITE, args: ["--requirements", "2025-11-25"] },
    { name: "all that 2026-07-28 requires", suite: SUITE, args: ["--requirements", "2026-07-28"] },
    { name: "the suite's older line", suite: OLDER_SUITE, args: [] },
  ]
) {
  Deno.test(`conformance of the server: ${name}`, async () => {
    await using workspace = await TempFolder.create();
    await using results = await TempFolder.create();
    await using server = await ConformanceServer.start(workspace.path);

    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: [
        ...["run", "-A", "--quiet", "--no-config", "--no-lock", suite, "server"],
        ...["--url", server.url.href, "-o", results.path, ...args],
      ],
      env: { NO_COLOR: "1" },
      signal: AbortSignal.timeout(MAX_MS), // Deno has once waited for itself while it loaded the suite
    }).output();

    const decoder = new TextDecoder();
    assertEquals(code, 0, decoder.decode(stdout) + decoder.decode(stderr));
  });
}
