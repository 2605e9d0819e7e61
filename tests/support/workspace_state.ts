import { makeWorkspaceState } from "../../src/files/workspace_state.ts";

/** The folder in which ipybox keeps its own files about a workspace. Makes it. */
export async function stateOf(workspace: string): Promise<string> {
  const folder = await makeWorkspaceState(workspace);
  if (folder === undefined) throw new Error("The tests' own state folder cannot be used");
  return folder;
}
