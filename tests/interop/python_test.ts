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
  for (const era of eras) {
    test(`${name}, era ${era}, with ipybox mcp on stdio`, async () => {
      await using workspace = await TempFolder.create();
      await using cache = await TempCache.create();
      const args = [...cliArguments, "mcp", "--workspace", workspace.path];
      const env = { ...Deno.env.toObject(), ...cache.env, NO_COLOR: "1" };
      const server = { command: Deno.execPath(), args, env };
      checkTranscript(await transcript({ library, era, server }));
    });

    test(`${name}, era ${era}, with ipybox mcp over HTTP`, async () => {
      await using workspace = await TempFolder.create();
      await using server = await HttpMcp.start([
        "--workspace",
        workspace.path,
        "--allow-registrations",
      ]);
      checkTranscript(await transcript({ library, era, ...server.address }));
    });
  }
}

function test(name: string, fn: () => Promise<void>): void {
  testIf("python" in found, "missing" in found ? found.missing : "", { name, fn });
}

async function transcript(job: Record<string, unknown>): Promise<Transcript> {
  const all = { ...job, tool: CELL, cells: CELLS, registration: REGISTRATION };
  const { code, stdout, stderr } = await new Deno.Command(
    "python" in found ? found.python : "",
    { args: [client, JSON.stringify(all)] },
  ).output();
  assertEquals(code, 0, new TextDecoder().decode(stderr));
  return JSON.parse(new TextDecoder().decode(stdout));
}
