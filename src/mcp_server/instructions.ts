import type { Session } from "./session.ts";

/**
 * What clients tell their models of this server. Claude Code cuts it at 2 KB.
 *
 * @param session What code can read besides its workspace, and what becomes of changes: where none can
 * be made, the text names no tool for them.
 * @returns The text.
 */
export function instructionsFor({ changes, project }: Session): string {
  const isFixed = changes === "fixed";
  const steps = [SEARCH, EXECUTE, ...(isFixed ? [] : [REGISTER]), INSTALL];
  const where = project === undefined
    ? ""
    : `Code can read the project ${project} by absolute paths, but not write there. It writes to ` +
      "its working directory, which lies elsewhere.\n\n";
  return `${where}${INTRODUCTION}

${steps.map((step, index) => `${index + 1}. ${step}`).join("\n")}

The user may be asked to approve tool calls${
    isFixed
      ? " and shell commands"
      : ", shell commands, registrations and installations from repositories"
  }. ${CLOSE}`;
}

const INTRODUCTION = `
ipybox executes Python in a stateful, sandboxed IPython kernel. MCP servers that are registered here \
become typed Python packages under \`mcptools\`, so that one code action can chain many tool calls, \
loop over them and compute with their results, and only what it prints comes back. Use it for work \
that takes several tool calls, for data that is too large to read, and for any computation.
`.trim();

const SEARCH =
  "search_tools finds tools of the registered servers. Ask for names first, then for " +
  "the full API of the few that you need; never guess arguments.";
const EXECUTE = "execute_ipython_cell runs code: `from mcptools.NAME import TOOL; result = " +
  "TOOL.run(argument=...)`. Results are typed: use their fields. Chain calls in one cell, keep " +
  "intermediate results in variables, and print only what is needed. Long output is cut in the " +
  "middle; its file and resource are named.";
const REGISTER = "register_mcp_server makes the Python API of another MCP server; " +
  "unregister_mcp_server removes it.";
const INSTALL = "install_package adds Python packages without reset; reset starts a fresh kernel.";

const CLOSE = `
A refused call raises ApprovalRejectedError with the reason: do not repeat it, ask the user. Code \
reaches the outside world only through registered servers.

Resources: mcptools://SERVER/TOOL.py is a tool's Python API, mcptools://SERVER/schema.json has the \
definitions, ipybox://outputs and ipybox://images what cells have left.
`.trim();
