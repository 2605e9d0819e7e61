import { weightOf } from "../json/weight.ts";
import type { Transport } from "./sdk.ts";

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
        `An MCP server does not take what it is sent: ${MAX_MIB} MiB wait for it`,
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
