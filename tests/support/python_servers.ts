import { EnvironmentNotReadyError } from "../../src/base/errors.ts";
import { buildPythonEnvironment } from "../../src/python/environment.ts";

const requirements = new URL("../python/servers.txt", import.meta.url);

/**
 * Builds the environment of the MCP servers in Python, once for this machine.
 *
 * @returns Its interpreter, or why there is none.
 */
export async function pythonServers(): Promise<{ python: string } | { missing: string }> {
  try {
    const { executable } = await buildPythonEnvironment({
      recipe: {
        requirements: await Deno.readTextFile(requirements),
        modules: { mcp: "mcp", fastmcp: "fastmcp" },
      },
    });
    return { python: executable };
  } catch (error) {
    if (!(error instanceof EnvironmentNotReadyError)) throw error;
    return { missing: `its packages cannot be installed: ${error.message.split("\n", 1)[0]}` };
  }
}
