import type { Session } from "../session.ts";

/** Which servers there are, as a sentence for an agent. */
export async function knownServers(session: Session): Promise<string> {
  const servers = await session.servers();
  if (servers.length > 0) return `Registered servers: ${servers.join(", ")}`;
  const how = session.changes === "fixed" ? "" : ": register one with register_mcp_server";
  return `No servers are registered${how}`;
}
