import { messageOf } from "../base/message_of.ts";
import { oneLine } from "../json/problems.ts";
import { instructionsFor } from "./instructions.ts";
import { registerPrompts } from "./prompts.ts";
import { registerResources } from "./resources.ts";
import { SdkMcpServer } from "./sdk.ts";
import type { Session } from "./session.ts";
import { forClients, withSession } from "./tool_input.ts";
import { registerTasks } from "./tasks.ts";
import { registerExecute, registerReset, registerWait } from "./tools/execute.ts";
import { registerInstall } from "./tools/install.ts";
import { registerRegister } from "./tools/register.ts";
import { registerSearch } from "./tools/search.ts";
import { registerUnregister } from "./tools/unregister.ts";

/** Options of {@linkcode serverFor}. */
export interface ServerForOptions {
  /** The version that the client receives. */
  readonly version: string;
  /** Whether tools declare the argument `session`. */
  readonly sessionArgument?: boolean;
  /** The prefix of task ids; without it, cells do not become tasks, as in the older era. */
  readonly taskPrefix?: string | undefined;
  /** Extends the server before it is connected. */
  readonly extend?: (server: SdkMcpServer, session: Session) => void;
}

/** Creates the server of one connection. */
export async function serverFor(
  session: Session,
  options: ServerForOptions,
): Promise<SdkMcpServer> {
  const { version, sessionArgument = false, taskPrefix, extend } = options;
  const declare = sessionArgument ? withSession : forClients;
  const server = new SdkMcpServer({ name: "ipybox", title: "ipybox", version }, {
    instructions: instructionsFor(session),
    ...session.rounds.serverOptions,
  });
  takeFailuresAsCancelled(server, session);
  const host = { server, session, declare };
  const nameServers = registerSearch(host);
  registerExecute(host, taskPrefix);
  registerWait(host);
  if (session.changes !== "fixed") {
    registerRegister(host);
    registerUnregister(host);
  }
  registerInstall(host);
  registerReset(host);
  registerResources(server, session);
  registerPrompts(server, session);
  if (taskPrefix !== undefined) registerTasks(server, session, taskPrefix);
  extend?.(server, session);
  const refresh = async () => {
    try {
      nameServers(await session.servers());
    } catch (error) {
      session.log.warn(`Cannot notify a client of the servers: ${error}`); // its calls say why
    }
  };
  await refresh();
  const listening = session.onServersChanged(async () => {
    await refresh();
    if (!server.isConnected()) return;
    server.server.sendResourceListChanged().catch((error: unknown) => {
      session.log.debug(`Cannot notify a client that resources changed: ${error}`);
    });
  });
  const { onclose } = server.server;
  server.server.onclose = () => {
    onclose?.();
    listening[Symbol.dispose]();
  };
  return server;
}

/**
 * Treats an error of the client, or an invalid answer, as a cancelled question. The SDK would end
 * the client's request with it, and leave the cell waiting.
 */
function takeFailuresAsCancelled(server: SdkMcpServer, { log }: Session): void {
  const { server: protocol } = server;
  const send: Send = protocol.request.bind(protocol);
  const request: Send = async (message, options) => {
    try {
      return await send(message, options);
    } catch (error) {
      const isAsked = message.method === "elicitation/create" && server.isConnected();
      if (!isAsked || options?.signal?.aborted) throw error;
      log.warn(`The client could not ask its user: ${oneLine(messageOf(error))}`);
      return { action: "cancel" };
    }
  };
  protocol.request = request as typeof protocol.request;
}

/** How requests are sent to a client. */
type Send = (
  message: { readonly method: string; readonly params?: Record<string, unknown> },
  options?: { readonly signal?: AbortSignal },
) => Promise<unknown>;
