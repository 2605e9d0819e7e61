import { z } from "zod";
import { explained, failure } from "../failure.ts";
import { forClients } from "../tool_input.ts";
import type { SdkMcpServer } from "../sdk.ts";
import type { PooledSession, SessionPool } from "./session_pool.ts";

/** Whose sessions the tools are about. */
export interface SessionToolsOptions {
  readonly pool: SessionPool;
  readonly owner: string;
  /** The session of this request. */
  readonly current: PooledSession;
}

const OPEN = `
Opens a session: a kernel of its own, in a folder of its own. Returns its handle, which other tools take \
as \`session\`. Without a session, calls share one that is there for everybody with the same token.

A session that is not used for a while is closed: variables are lost, files stay in its folder.
`.trim();

const opened = z.object({
  session: z.string().describe("The handle"),
  workspace: z.string().describe("The session's folder on the server"),
  files: z.string().describe("Where its files are, for GET and PUT with the client's token"),
});

/** Adds `open_session` and `close_session`, for clients of a protocol that knows no sessions. */
export function registerSessionTools(server: SdkMcpServer, options: SessionToolsOptions): void {
  const { pool, owner, current } = options;
  const { answers } = current.session;
  server.registerTool("open_session", {
    title: "Open a session",
    description: OPEN,
    inputSchema: forClients(z.object({})),
    ...answers.declare(opened),
    annotations: { readOnlyHint: false, destructiveHint: false, openWorldHint: false },
  }, async () => {
    try {
      const { id, folder } = await pool.open(owner);
      const report = { session: id, workspace: folder, files: `/sessions/${id}/files/` };
      const text = `Opened session ${id}: pass it as \`session\` to the other tools`;
      return answers.of({ text, report });
    } catch (error) {
      return explained(error);
    }
  });
  server.registerTool("close_session", {
    title: "Close a session",
    description: "Closes a session: its kernel and its MCP servers end. Its files stay.",
    inputSchema: forClients(z.object({ session: z.string().describe("The handle") })),
    annotations: { readOnlyHint: false, destructiveHint: true, openWorldHint: false },
  }, async ({ session }) => {
    try {
      return await pool.close(owner, session)
        ? { content: [{ type: "text", text: `Closed session ${session}` }] }
        : failure(`There is no session "${session}"`);
    } catch (error) {
      return explained(error);
    }
  });
}
