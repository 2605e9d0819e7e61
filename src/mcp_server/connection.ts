import { INSTRUCTIONS } from "./instructions.ts";
import { registerPrompts } from "./prompts.ts";
import { registerResources } from "./resources.ts";
import { SdkMcpServer } from "./sdk.ts";
import type { Session } from "./session.ts";
import { registerExecute } from "./tools/execute.ts";
import { registerInstall } from "./tools/install.ts";
import { registerRegister } from "./tools/register.ts";
import { registerReset } from "./tools/reset.ts";
import { registerSearch } from "./tools/search.ts";
import { registerUnregister } from "./tools/unregister.ts";

/**
 * Makes the server of one connection.
 *
 * @param session The session that its client works in. It may have several connections.
 * @param version The version that the client is told.
 * @returns The server, to be connected.
 */
export function serverFor(session: Session, version: string): SdkMcpServer {
  const server = new SdkMcpServer({ name: "ipybox", title: "ipybox", version }, {
    instructions: INSTRUCTIONS,
    ...session.rounds.serverOptions,
  });
  registerSearch(server, session);
  registerExecute(server, session);
  registerRegister(server, session);
  registerUnregister(server, session);
  registerInstall(server, session);
  registerReset(server, session);
  registerResources(server, session);
  registerPrompts(server, session);
  const listening = session.onResourcesChanged(() => {
    if (!server.isConnected()) return;
    server.server.sendResourceListChanged().catch((error: unknown) => {
      session.log.debug(`Cannot tell a client that resources changed: ${error}`);
    });
  });
  const { onclose } = server.server;
  server.server.onclose = () => {
    onclose?.();
    listening[Symbol.dispose]();
  };
  return server;
}
