/** The clients of the MCP Python SDK and of FastMCP, from PyPI. */
import { assertEquals } from "@std/assert";
import { cliArguments } from "../support/cli.ts";
import { HttpMcp } from "../support/http_mcp.ts";
import { CELL, CELLS, checkTranscript, REGISTRATION, type Transcript } from "../support/interop.ts";
import { pythonServers } from "../support/python_servers.ts";
import { testIf } from "../support/skip.ts";
import { TempCache } from "../support/temp_cache.ts";
import { TempFolder } from "../support/temp_folder.ts";

const found = await pythonServers();
const client = new URL("../fixtures/mcp/interop_client.py", import.meta.url).pathname;

for (
  const { library, name, eras } of [
    { library: "mcp", name: "Python SDK", eras: ["auto", "legacy"] },
    { library: "fastmcp", name: "FastMCP", eras: ["auto"] },
  ]
) {
  test(`${name} with ipybox mcp on stdio and over HTTP, era ${eras.join(", ")}`, async (t) => {
    await using workspace = await TempFolder.create();
    await using cache = await TempCache.create();
    const http = ["--workspace", workspace.path, "--allow-registrations", "--no-sandbox"];
    await using running = await HttpMcp.start(http, { cache });
    const env = { ...Deno.env.toObject(), ...cache.env, NO_COLOR: "1" };
    await using parts = new AsyncDisposableStack();
    const servers = [];
    for (const era of eras) {
      const own = parts.use(await TempFolder.create());
      const args = [...cliArguments, "mcp", "--workspace", own.path];
      servers.push({ era, server: { command: Deno.execPath(), args, env } });
      servers.push({ era, ...running.address });
    }

    const transcripts = await play({ library, servers });

    assertEquals(transcripts.length, servers.length);
    for (const [i, transcript] of transcripts.entries()) {
      const { era, ...server } = servers[i] ?? {};
      const how = "url" in server ? "over HTTP" : "on stdio";
      await t.step(`era ${era}, ${how}`, () => checkTranscript(transcript));
    }
  });
}

function test(name: string, fn: (t: Deno.TestContext) => Promise<void>): void {
  testIf("python" in found, "missing" in found ? found.missing : "", { name, fn });
}

/** What a client sees of each server. One process does it, as importing the libraries takes long. */
async function play(job: Record<string, unknown>): Promise<Transcript[]> {
  const all = { ...job, tool: CELL, cells: CELLS, registration: REGISTRATION };
  const { code, stdout, stderr } = await new Deno.Command(
    "python" in found ? found.python : "",
    { args: [client, JSON.stringify(all)] },
  ).output();
  assertEquals(code, 0, new TextDecoder().decode(stderr));
  return JSON.parse(new TextDecoder().decode(stdout));
}
