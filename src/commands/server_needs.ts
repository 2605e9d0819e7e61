import { resolve } from "node:path";
import { ConfigError } from "../errors.ts";
import { wantedSandbox } from "../mcp/sandbox_settings.ts";
import { fillVariables, type ServerParams, type VariableLookup } from "../mcp/server_params.ts";
import { variableLookup } from "../mcp/variables.ts";
import { programOf } from "../process/program.ts";
import type { Prerequisite } from "../sandbox/preflight.ts";
import { ServerRegistry } from "../tool_server/server_registry.ts";

/**
 * Checks what the registered servers of a workspace need: their programs and variables. None is
 * started or connected to.
 */
export async function checkServers(workspace: string): Promise<Prerequisite[]> {
  const registry = await ServerRegistry.open({ workspace });
  if (registry.names.length === 0) return [];
  const lookup = await variableLookup(workspace);
  return await Promise.all(
    registry.entries.map(([name, params]) => checkServer(name, params, { workspace, lookup })),
  );
}

async function checkServer(
  server: string,
  params: ServerParams,
  { workspace, lookup }: { readonly workspace: string; readonly lookup: VariableLookup },
): Promise<Prerequisite> {
  const row = { name: `server ${server}`, version: null, fix: null } as const;
  try {
    const filled = fillVariables(server, params, lookup);
    if (!("command" in filled)) {
      return { ...row, state: "ok", detail: `${new URL(filled.url).origin} (not tried)` };
    }
    const { command } = wantedSandbox(server, filled);
    const program = await programOf(command, {
      path: filled.env?.PATH,
      untrusted: [workspace],
      folder: resolve(workspace, filled.cwd ?? "."),
    });
    await Deno.stat(program);
    return { ...row, state: "ok", detail: program };
  } catch (error) {
    const expected = error instanceof ConfigError || error instanceof TypeError ||
      error instanceof Deno.errors.NotFound;
    if (!expected) throw error;
    return { ...row, state: "warn", detail: error.message };
  }
}
