import { assertRejects } from "@std/assert";
import type { ByteStream } from "../base/streams.ts";
import { LanguageServer } from "./language_server.ts";

/** A type checker that sends requests and reads nothing. */
function greedy(request: object): ByteStream {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, ...request });
  const bytes = new TextEncoder().encode(`Content-Length: ${body.length}\r\n\r\n${body}`);
  const never = new Promise<never>(() => {});
  let isClosed = false;
  return {
    closed: never,
    read: () => Promise.resolve(isClosed ? null : bytes),
    write: () => never,
    end: () => never,
    close: () => void (isClosed = true),
  };
}

const ask = (items: number) => ({
  method: "workspace/configuration",
  params: { items: Array(items).fill(0) },
});

Deno.test("LanguageServer keeps few answers for a server that reads none", async () => {
  const start = () => LanguageServer.start(greedy(ask(100)), "/stubs");
  await assertRejects(start, Error, "does not read what it asked for");
});

Deno.test("LanguageServer gives no endless answer", async () => {
  await assertRejects(() => LanguageServer.start(greedy(ask(100_000)), "/stubs"), Error, "items");
});
