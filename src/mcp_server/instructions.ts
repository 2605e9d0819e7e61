import type { Session } from "./session.ts";

/**
 * What clients tell their models of this server, where they do: tool descriptions say all that counts.
 *
 * @param session What code can read besides its workspace.
 * @returns The text.
 */
export function instructionsFor({ project }: Pick<Session, "project">): string {
  const where = project === undefined
    ? ""
    : `Code can read the project ${project} by absolute paths, but not write there. It writes to ` +
      "its working directory, which lies elsewhere.\n\n";
  return where + INSTRUCTIONS;
}

const INSTRUCTIONS = `
Use ipybox for work that takes several tool calls, for data too large to read, and for any computation: \
find tools with search_tools, then do the job in one execute_ipython_cell, where the tools of registered \
MCP servers are typed Python functions. Print only what you need.

The user may be asked to approve what you do. If something is refused, do not try another way.
`.trim();
