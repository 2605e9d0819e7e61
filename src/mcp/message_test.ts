import { assertEquals, assertThrows } from "@std/assert";
import { measureJson } from "../json/measure.ts";
import { checkMessage, parseMessage, UnusableMessageError } from "./message.ts";
import type { JSONRPCMessage, Transport } from "./sdk.ts";
import { sealMessages } from "./tools.ts";

Deno.test("checkMessage() counts together what each takes long to parse", () => {
  const [none, M] = [{ values: 0, names: 0, depth: 1, escapes: 0, bare: 0 }, 2 ** 20];
  checkMessage({ ...none, values: 1_000_000, bare: 8 * M });
  checkMessage({ ...none, values: 400_000, names: 200_000, bare: 8 * M });
  checkMessage({ ...none, escapes: 8 * M, bare: 8 * M });
  for (
    const measure of [
      { ...none, values: 1_000_000, bare: 9 * M },
      { ...none, values: 400_000, names: 200_000, escapes: 3 * M },
      { ...none, escapes: 8 * M, bare: 9 * M },
    ]
  ) {
    assertThrows(() => checkMessage(measure), UnusableMessageError, "take too long together");
  }
});

Deno.test("parseMessage() takes fewer escapes of a request or a notification than of a response", () => {
  const text = "\\\\".repeat(2 ** 20 + 1);
  const parse = (rest: string) => {
    const json = `{"jsonrpc":"2.0","text":"${text}",${rest}}`;
    return parseMessage(json, measureJson(new TextEncoder().encode(json)));
  };
  parse('"id":1,"result":{}');
  const refused = "a request or notification with more than 1048576 escapes";
  assertThrows(() => parse('"method":"x"'), UnusableMessageError, refused);
});

Deno.test("sealMessages() passes on nothing of a response that nobody waits for", async () => {
  const received: JSONRPCMessage[] = [];
  const transport: Transport = {
    start: () => Promise.resolve(),
    close: () => Promise.resolve(),
    send: () => Promise.resolve(),
    onmessage: (message) => void received.push(message),
  };
  sealMessages(transport);
  const call = (id: number | string): JSONRPCMessage => ({ jsonrpc: "2.0", id, method: "x" });
  const answer = (id: number | string): JSONRPCMessage => ({
    ...{ jsonrpc: "2.0", id, result: { content: [id] } },
  });
  const last = (message: JSONRPCMessage): unknown => {
    transport.onmessage?.(message);
    return received.at(-1);
  };
  const stub = { jsonrpc: "2.0", id: 1, result: {} };

  assertEquals(last(answer(1)), stub);
  await transport.send(call(1));
  await transport.send(call("a"));
  assertEquals(last(call(1)), call(1)); // a server's own request
  assertEquals(last(answer(1)), answer(1));
  assertEquals(last(answer(1)), stub); // once more
  assertEquals(last(answer("a")), answer("a"));
  await transport.send(call(1));
  const params = { requestId: 1 };
  await transport.send({ jsonrpc: "2.0", method: "notifications/cancelled", params });
  assertEquals(last({ jsonrpc: "2.0", id: 1, error: { code: 1, message: "long" } }), stub);
});
