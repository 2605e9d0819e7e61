import type { Session } from "./session.ts";

/**
 * Instructions for models. Not all clients pass them on: tool descriptions contain all that
 * matters.
 */
export function instructionsFor(session: Pick<Session, "project">): string {
  return [...filesNote(session), INSTRUCTIONS].join("\n\n");
}

/** Says where code finds the user's files, if it has access to any. */
export function filesNote({ project }: Pick<Session, "project">): string[] {
  if (project === undefined) return [];
  return [
    `Code can read the project ${project} by absolute paths, but not write there. It writes to its ` +
    "working directory, which is elsewhere.",
  ];
}

const INSTRUCTIONS = `
Use ipybox for work with several tool calls, large data or any computation: \
find tools with search_tools, then do the job in one execute_ipython_cell, where the tools of registered \
MCP servers are typed Python functions.

The user may be asked to approve what you do. If something is refused, do not try another way.
`.trim();
