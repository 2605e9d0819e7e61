import { StdioTransport } from "../../src/mcp/stdio.ts";
import { isRecord } from "../../src/json/exact.ts";
import type { JSONRPCMessage } from "../../src/mcp/sdk.ts";

/** The transport for the SDK's own clients, which read tools' results themselves. */
export class PlainStdioTransport extends StdioTransport {
  constructor(options: ConstructorParameters<typeof StdioTransport>[0]) {
    super(options);
    let deliver: StdioTransport["onmessage"];
    Object.defineProperty(this, "onmessage", { // the SDK sets it at any time
      get: () => deliver && ((message: JSONRPCMessage) => deliver?.(asWritten(message))),
      set: (value: typeof deliver) => deliver = value,
    });
  }
}

function asWritten(message: JSONRPCMessage): JSONRPCMessage {
  const result = "result" in message ? message.result : undefined;
  const text = isRecord(result) ? result.structuredContent : undefined;
  return typeof text === "string" ? JSON.parse(text) : message;
}
