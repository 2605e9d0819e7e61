import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { decodeMessage } from "./jupyter.ts";

Deno.test("decodeMessage() refuses what is no Jupyter message", async (t) => {
  const junk: Record<string, ArrayBuffer> = {
    "nothing": new ArrayBuffer(0),
    "a count that is too large": new BigUint64Array([2n ** 60n, 0n]).buffer,
    "offsets that point nowhere": new BigUint64Array([6n, 999n, 0n, 0n, 0n, 0n, 0n]).buffer,
    "text": new TextEncoder().encode("not a message at all").buffer,
    "JSON of another shape": wire(["iopub", "[]", "{}", "{}", "{}"]),
    "a header without fields": wire(["iopub", "{}", "{}", "{}", "{}"]),
    "a stream without text": wire([
      "iopub",
      JSON.stringify({ username: "", version: "5", session: "", msg_id: "", msg_type: "stream" }),
      "{}",
      "{}",
      `{"name": "stdout"}`,
    ]),
  };
  for (const [name, data] of Object.entries(junk)) {
    await t.step(name, () => void assertThrows(() => decodeMessage(data)));
  }
});

Deno.test("decodeMessage() leaves out what would be too many values, and says so", () => {
  const decode = (channel: string, type: string, content: string) =>
    decodeMessage(
      wire([channel, JSON.stringify({ ...HEADER, msg_type: type }), "{}", "{}", content]),
    );
  const many = `[${"[],".repeat(300_000)}1]`;
  const display = decode("iopub", "display_data", `{"data":{},"metadata":{"x":${many}}}`);
  assertEquals(display.type, "stream");
  assertMatch(String(display.content.text), /output omitted: it has more than 250000 values/);
  const reply = decode("shell", "execute_reply", `{"status":"ok","payload":${many}}`);
  assertEquals([reply.type, reply.content.status], ["execute_reply", undefined]);
  const deep = decode("iopub", "error", `{"ename":${"[".repeat(3000)}`);
  assertMatch(String(deep.content.text), /nests more than 500 levels/);
  const large = decode(
    "iopub",
    "stream",
    JSON.stringify({ name: "stdout", text: "[".repeat(1e6) }),
  );
  assertEquals(String(large.content.text).length, 1e6);
});

const HEADER = { username: "", version: "5", session: "", msg_id: "" };

/** The binary form of a message: the number of offsets, the offsets, the parts. */
function wire(parts: readonly string[]): ArrayBuffer {
  const encoded = parts.map((part) => new TextEncoder().encode(part));
  const start = 8 * (parts.length + 2);
  const offsets = [start];
  for (const part of encoded) offsets.push(offsets.at(-1)! + part.length);
  const bytes = new Uint8Array(offsets.at(-1)!);
  const words = [offsets.length, ...offsets].map(BigInt);
  bytes.set(new Uint8Array(new BigUint64Array(words).buffer));
  encoded.forEach((part, i) => bytes.set(part, offsets[i]!));
  return bytes.buffer;
}
