import { ServerRegistry } from "../../src/servers/registry.ts";
import { rawServer } from "./mcp.ts";
import { TempFolder } from "./temp_folder.ts";

/** A workspace in which the server `raw` is registered, without a Python API. */
export async function workspaceWithServer(): Promise<TempFolder> {
  const workspace = await TempFolder.create();
  const registry = await ServerRegistry.open({ workspace: workspace.path });
  await registry.register("raw", rawServer());
  return workspace;
}

/** Python that calls tools of `raw` without an API of theirs. */
export const RAW = "from ipybox_runtime import ToolRunner\nraw = ToolRunner('raw')\n";
