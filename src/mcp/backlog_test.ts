import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { limitBacklog } from "./client.ts";
import { StreamableHTTPClientTransport } from "./sdk.ts";

Deno.test("limitBacklog() ends a connection by HTTP whose server does not answer", async () => {
  const closing = Promise.withResolvers<Response>();
  await using server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    () => closing.promise,
  );
  const url = new URL(`http://127.0.0.1:${server.addr.port}/`);
  const transport = new StreamableHTTPClientTransport(url);
  const failures: Error[] = [];
  limitBacklog(transport, (error) => void failures.push(error));
  await transport.start();
  const answer = { jsonrpc: "2.0", id: 1, result: { x: "x".repeat(2 ** 20) } } as const;
  const sent = Array.from({ length: 128 }, () => transport.send(answer));
  await assertRejects(() => transport.send(answer), Error, "does not read its input");
  assertEquals(failures.length, 1);
  assertMatch(failures[0]?.message ?? "", /128 MiB are waiting for it/);
  await transport.close();
  for (const { status } of await Promise.allSettled(sent)) assertEquals(status, "rejected");
  const next = transport.send(answer); // nothing waits any more, so this is not what it fails for
  await assertRejects(() =>
    next.then(() => Promise.reject(new Error("sent")), (e) => Promise.reject(e))
  );
  assertEquals(failures.length, 1);
  closing.resolve(new Response());
});
