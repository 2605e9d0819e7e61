import type { Session } from "../session.ts";

/** Which servers there are, as a sentence for an agent. */
export async function knownServers(session: Session): Promise<string> {
  const servers = await session.servers();
  return servers.length === 0
    ? "No servers are registered: register one with register_mcp_server"
    : `Registered servers: ${servers.join(", ")}`;
}
