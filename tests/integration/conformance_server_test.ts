/**
 * The official conformance suite against our server over HTTP: what it asks for is made by cells.
 */
import { assertEquals } from "@std/assert";
import { ConformanceServer } from "../fixtures/mcp/conformance_server.ts";
import { TempFolder } from "../support/temp_folder.ts";

const SUITE = "npm:@modelcontextprotocol/conformance@0.2.0-alpha.12";
/** Ten times what the longest one takes. */
const MAX_MS = 300_000;

Deno.test("conformance of the server", async (t) => {
  await using workspace = await TempFolder.create();
  await using server = await ConformanceServer.start(workspace.path);

  // The scenarios of the suite's older line, 0.1, are among those for 2025-11-25.
  for (const revision of ["2025-11-25", "2026-07-28"]) {
    await t.step(`all that ${revision} requires`, async () => {
      await using results = await TempFolder.create();

      const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
        args: [
          ...["run", "-A", "--quiet", "--no-config", "--no-lock", SUITE, "server"],
          ...["--url", server.url.href, "-o", results.path, "--requirements", revision],
        ],
        env: { NO_COLOR: "1" },
        signal: AbortSignal.timeout(MAX_MS), // Deno has once waited for itself while it loaded the suite
      }).output();

      const decoder = new TextDecoder();
      assertEquals(code, 0, decoder.decode(stdout) + decoder.decode(stderr));
    });
  }
});
