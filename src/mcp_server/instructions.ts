import type { Session } from "./session.ts";

/**
 * What clients tell their models of this server, where they do: tool descriptions say all that counts.
 *
 * @param session Where code finds the user's files.
 * @returns The text.
 */
export function instructionsFor(session: Pick<Session, "project" | "isFilled">): string {
  return placeOf(session) + INSTRUCTIONS;
}

function placeOf({ project, isFilled }: Pick<Session, "project" | "isFilled">): string {
  const own = isFilled ? "The working directory holds copies of the user's files.\n\n" : "";
  return project === undefined
    ? own
    : `Code can read the project ${project} by absolute paths, but not write there. It writes to ` +
      `its working directory, which lies elsewhere.\n\n${own}`;
}

const INSTRUCTIONS = `
Use ipybox for work that takes several tool calls, for data too large to read, and for any computation: \
find tools with search_tools, then do the job in one execute_ipython_cell, where the tools of registered \
MCP servers are typed Python functions. Print only what you need.

The user may be asked to approve what you do. If something is refused, do not try another way.
`.trim();
