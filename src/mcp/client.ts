import { type Logger, silentLogger } from "../base/log.ts";
import { Semaphore } from "../base/mutex.ts";
import { weightOf } from "../json/exact.ts";
import type { Root, ServerHooks } from "./hooks.ts";
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
  /** The era of the protocol. */
  readonly protocol: McpProtocol;
  /** What the server may tell and ask. */
  readonly hooks?: ServerHooks;
  /** Receives messages that the SDK cannot handle. */
  readonly log?: Logger;
}

const CLIENT_INFO = { name: "ipybox", version: "0.1.0" } as const;

/** The longest list of tools, in pages. A server that never ends its list must not fill the memory. */
const MAX_PAGES = 1000;
/** How many requests of one server for a model's answer may be open: each may be large. */
const MAX_SAMPLING = 16;
/** The least grave messages that servers are asked to log. */
const LOG_LEVEL = "info";

/** Makes a client that is not connected yet. */
export function makeClient(serverName: string, options: ClientMakeOptions): Client {
  const { protocol, hooks = {}, log = silentLogger } = options;
  const client = new Client(CLIENT_INFO, {
    capabilities: capabilities(hooks),
    versionNegotiation: negotiation(protocol),
    listMaxPages: MAX_PAGES,
  });
  client.onerror = (error) => log.debug(`${serverName}: ${error.message}`);
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

/** Lets the server ask what it was told that it may ask. */
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
    client.setRequestHandler("roots/list", () => ({ roots: roots.map(root) }));
  }
}

/** Questions are always taken: some servers only list tools that ask where they may ask. */
function capabilities({ sample, roots }: ServerHooks): ClientCapabilities {
  return {
    elicitation: { form: {}, url: {} },
    ...(sample === undefined ? {} : { sampling: {} }),
    ...(roots === undefined ? {} : { roots: {} }),
  };
}

function root({ uri, name }: Root): { uri: string; name?: string } {
  return name === undefined ? { uri } : { uri, name };
}

function mutable(
  content: Readonly<Record<string, FormValue>>,
): Record<string, string | number | boolean | string[]> {
  const entries = Object.entries(content).map(([name, value]) =>
    [name, typeof value === "object" ? [...value] : value] as const
  );
  return Object.fromEntries(entries);
}

/**
 * Asks a connected server of the handshake era for its log; the newer era is asked by each request.
 */
export function requestLog(client: Client, refused: (error: unknown) => void): void {
  if (client.getProtocolEra() === "modern" || !client.getServerCapabilities()?.logging) return;
  client.setLoggingLevel(LOG_LEVEL).catch(refused);
}

/**
 * Asks a connected server of the newer era to tell when its tools change; the others do it unasked.
 */
export function listenForChanges(client: Client, refused: (error: unknown) => void): void {
  const changes = client.getServerCapabilities()?.tools?.listChanged === true;
  if (client.getProtocolEra() !== "modern" || !changes) return;
  client.listen({ toolsListChanged: true }).catch(refused);
}

/** What goes with each request, so that a server of the newer era logs. */
export const LOG_REQUEST: Readonly<Record<string, string>> = {
  "io.modelcontextprotocol/logLevel": LOG_LEVEL,
};

function negotiation(protocol: McpProtocol): VersionNegotiationOptions {
  return { mode: protocol === "2026-07-28" ? { pin: protocol } : protocol };
}

/** The most memory of messages that wait until the server takes them: more than all calls of a kernel take. */
const MAX_MIB = 128;
/** What each of them takes besides what it holds. */
const MESSAGE_BYTES = 4096;

/**
 * Bounds what waits to be sent to a server. One that asks all the time, and takes no answers, would fill
 * the memory with them.
 */
export function limitBacklog(transport: Transport, fail: (error: Error) => void): void {
  const send = transport.send.bind(transport);
  let bytes = 0;
  transport.send = async (message, options) => {
    // Before it is counted, so that a message may be of any size where nothing else waits.
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
