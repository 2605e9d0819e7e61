import { type Logger, silentLogger } from "../base/log.ts";
import { Semaphore } from "../base/mutex.ts";
import { weightOf } from "../json/exact.ts";
import type { ServerHooks } from "./hooks.ts";
import type { McpProtocol } from "./params.ts";
import { type FormValue, openQuestion } from "./questions.ts";
import {
  Client,
  type ClientCapabilities,
  type CreateMessageResult,
  type Transport,
  type VersionNegotiationOptions,
} from "./sdk.ts";

/** Options of {@linkcode makeClient}. */
interface ClientMakeOptions {
  /** The protocol version to use. */
  readonly protocol: McpProtocol;
  /** How to react to the server's unprompted messages. */
  readonly hooks?: ServerHooks;
  /** Receives messages that the SDK cannot handle. */
  readonly log?: Logger;
}

const CLIENT_INFO = { name: "ipybox", version: "0.1.0" } as const;

/** How many sampling requests of one server may be open, since each may be large. */
const MAX_SAMPLING = 16;
/** The most characters to log of the SDK's error about a message, which may quote all of it. */
const MAX_LOGGED = 1000;
/** The lowest severity that servers are asked to log. */
const LOG_LEVEL = "info";

/** Makes a client that is not connected yet. */
export function makeClient(serverName: string, options: ClientMakeOptions): Client {
  const { protocol, hooks = {}, log = silentLogger } = options;
  const client = new Client(CLIENT_INFO, {
    capabilities: capabilities(hooks),
    versionNegotiation: negotiation(protocol),
  });
  client.onerror = (error) => log.debug(`${serverName}: ${error.message.slice(0, MAX_LOGGED)}`);
  const { onLog } = hooks;
  if (onLog !== undefined) {
    client.setNotificationHandler("notifications/message", ({ params }) => {
      const { level, logger, data } = params;
      onLog({ level, data, ...(logger === undefined ? {} : { logger }) });
    });
  }
  answerRequests(serverName, client, hooks, log);
  return client;
}

/** Answers the requests that the client's capabilities allow a server to send. */
function answerRequests(serverName: string, client: Client, hooks: ServerHooks, log: Logger): void {
  const { elicit, sample, roots } = hooks;
  client.setRequestHandler("elicitation/create", async ({ params }, { mcpReq }) => {
    const question = openQuestion(params);
    if (typeof question === "string") {
      log.warn(`Declined a question from MCP server "${serverName}": ${question}`);
      return { action: "decline" };
    }
    const answer = await elicit?.(question, mcpReq.signal) ?? { action: "decline" };
    if (answer.action !== "accept" || answer.content === undefined) {
      return { action: answer.action };
    }
    return { action: "accept", content: mutable(answer.content) };
  });
  if (sample !== undefined) {
    const turns = new Semaphore(MAX_SAMPLING);
    client.setRequestHandler("sampling/createMessage", async ({ params }, { mcpReq }) => {
      using turn = turns.tryAcquire();
      if (turn === undefined) throw new Error(`${MAX_SAMPLING} such requests are already open`);
      const answer = await sample({ serverName, params, signal: mcpReq.signal });
      return answer as CreateMessageResult; // the SDK checks it
    });
  }
  if (roots !== undefined) {
    client.setRequestHandler("roots/list", () => ({ roots: [...roots] }));
  }
}

/** Elicitation is always offered: some servers list tools that ask questions only if it is. */
function capabilities({ sample, roots }: ServerHooks): ClientCapabilities {
  return {
    elicitation: { form: {}, url: {} },
    ...(sample === undefined ? {} : { sampling: {} }),
    ...(roots === undefined ? {} : { roots: {} }),
  };
}

function mutable(
  content: Readonly<Record<string, FormValue>>,
): Record<string, string | number | boolean | string[]> {
  const entries = Object.entries(content).map(([name, value]) =>
    [name, typeof value === "object" ? [...value] : value] as const
  );
  return Object.fromEntries(entries);
}

/** Asks a server of the handshake era for its log messages; in the newer era, each request asks. */
export function requestLog(client: Client, refused: (error: unknown) => void): void {
  if (client.getProtocolEra() === "modern" || !client.getServerCapabilities()?.logging) return;
  client.setLoggingLevel(LOG_LEVEL).catch(refused);
}

/** Subscribes to tool list changes of a server of the newer era; older servers send them anyway. */
export function listenForChanges(client: Client, refused: (error: unknown) => void): void {
  const changes = client.getServerCapabilities()?.tools?.listChanged === true;
  if (client.getProtocolEra() !== "modern" || !changes) return;
  client.listen({ toolsListChanged: true }).catch(refused);
}

/** Metadata of each request that asks a server of the newer era to log. */
export const LOG_REQUEST: Readonly<Record<string, string>> = {
  "io.modelcontextprotocol/logLevel": LOG_LEVEL,
};

function negotiation(protocol: McpProtocol): VersionNegotiationOptions {
  return { mode: protocol === "2026-07-28" ? { pin: protocol } : protocol };
}

/** The most memory for messages waiting to be sent to one server: more than all calls of a kernel need. */
const MAX_MIB = 128;
/** The estimated overhead of each message. */
const MESSAGE_BYTES = 4096;

/** Limits the messages to a server that asks without reading the answers. */
export function limitBacklog(transport: Transport, fail: (error: Error) => void): void {
  const send = transport.send.bind(transport);
  let bytes = 0;
  transport.send = async (message, options) => {
    // Checked before the message is counted, so that a single message may have any size.
    if (bytes >= MAX_MIB * 2 ** 20) {
      const error = new Error(
        `An MCP server does not read its input: ${MAX_MIB} MiB are waiting for it`,
      );
      fail(error);
      throw error;
    }
    const size = MESSAGE_BYTES + weightOf(message);
    bytes += size;
    try {
      await send(message, options);
    } finally {
      bytes -= size;
    }
  };
}
