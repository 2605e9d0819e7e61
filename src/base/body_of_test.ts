import { assertEquals } from "@std/assert";
import { collectGarbage } from "../../tests/support/garbage.ts";
import { settledWithin } from "./signals.ts";
import { bodyOf } from "./http.ts";

Deno.test("bodyOf() ends with its signal, though nothing else keeps the request", async () => {
  const stop = new AbortController();
  const server = Deno.serve(
    { port: 0, signal: stop.signal, onListen() {} },
    () => new Response(beginning()),
  );
  const ac = new AbortController();
  const signals = [ac.signal, AbortSignal.any([ac.signal, new AbortController().signal])];
  const readers = await Promise.all(signals.map(async (signal) => {
    const response = await fetch(`http://127.0.0.1:${server.addr.port}`, { signal });
    const reader = bodyOf(response, signal)?.getReader();
    await reader?.read();
    return reader;
  }));
  signals.length = 0;
  const ends = readers.map((reader) => reader?.read().then(() => "read", (error) => error));

  await collectGarbage();
  const reason = new Error("enough");
  ac.abort(reason);

  const ended = Promise.all(ends);
  assertEquals(await settledWithin(ended, 5000), true, "a body goes on");
  assertEquals(await ended, [reason, reason]);
  stop.abort();
  await server.finished;
});

/** A body that says one thing, and then nothing. */
function beginning(): ReadableStream<Uint8Array> {
  return new ReadableStream({ start: (controller) => controller.enqueue(new Uint8Array(1)) });
}
