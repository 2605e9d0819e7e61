/** What clients tell their models of this server. Claude Code cuts it at 2 KB. */
export const INSTRUCTIONS: string = `
ipybox executes Python in a stateful, sandboxed IPython kernel. MCP servers that are registered here \
become typed Python packages under \`mcptools\`, so that one code action can chain many tool calls, \
loop over them and compute with their results, and only what it prints comes back. Use it for work \
that takes several tool calls, for data that is too large to read, and for any computation.

1. search_tools finds tools of the registered servers. Ask for names first, then for the full API of \
the few that you need; never guess arguments.
2. execute_ipython_cell runs code: \`from mcptools.NAME import TOOL; result = TOOL.run(argument=...)\`. \
Results are typed: use their fields. Chain calls in one cell, keep intermediate results in variables, \
and print only what is needed. Long output is cut in the middle; its file and resource are named.
3. register_mcp_server makes the Python API of another MCP server; unregister_mcp_server removes it.
4. install_package adds Python packages without reset; reset starts a fresh kernel.

The user may be asked to approve tool calls, shell commands, registrations and installations from \
repositories. A refused call raises ApprovalRejectedError with the reason: do not repeat it, ask the \
user. Code reaches the outside world only through registered servers.

Resources: mcptools://SERVER/TOOL.py is a tool's Python API, mcptools://SERVER/schema.json has the \
definitions, ipybox://outputs and ipybox://images what cells have left.
`.trim();
