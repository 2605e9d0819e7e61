import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "../../tests/support/fast_check.ts";
import {
  creditOf,
  encodeCredit,
  encodeFrame,
  type Frame,
  FrameDecoder,
  FrameType,
  LinkError,
  MAX_PAYLOAD,
} from "./frame.ts";

const u32 = fc.integer({ min: 0, max: 0xffff_ffff });
const withPayload = fc.constantFrom(
  FrameType.DATA,
  FrameType.READY,
  FrameType.START,
  FrameType.EXIT,
);
const without = fc.constantFrom(FrameType.OPEN, FrameType.EOF, FrameType.RST);
const frames = fc.array(fc.oneof(
  fc.record({ type: withPayload, stream: u32, payload: fc.uint8Array({ maxLength: 300 }) }),
  fc.record({ type: without, stream: u32, payload: fc.constant(new Uint8Array()) }),
  fc.record({
    type: fc.constant(FrameType.WIN),
    stream: u32,
    payload: fc.uint8Array({ minLength: 4, maxLength: 4 }),
  }),
));

function cut(bytes: Uint8Array, at: number[]): Uint8Array[] {
  const edges = [0, ...at.map((n) => n % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return edges.slice(1).map((edge, i) => bytes.slice(edges[i], edge));
}

function concat(parts: Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

Deno.test("FrameDecoder gives the frames that were encoded, however they are cut", () => {
  fc.assert(fc.property(frames, fc.array(fc.nat()), (sent, cuts) => {
    const bytes = concat(sent.map((f) => encodeFrame(f.type, f.stream, f.payload)));
    const decoder = new FrameDecoder();
    const got: Frame[] = cut(bytes, cuts).flatMap((chunk) => [...decoder.push(chunk)]);
    assertEquals(got, sent);
    assertEquals(decoder.pending, 0);
  }));
});

Deno.test("FrameDecoder takes garbage without keeping more than one frame", () => {
  fc.assert(fc.property(fc.array(fc.uint8Array({ maxLength: 2000 })), (chunks) => {
    const decoder = new FrameDecoder();
    try {
      for (const chunk of chunks) {
        for (const frame of decoder.push(chunk)) assert(frame.payload.length <= MAX_PAYLOAD);
        assert(decoder.pending <= MAX_PAYLOAD + 9);
      }
    } catch (error) {
      assert(error instanceof LinkError);
    }
  }));
});

Deno.test("FrameDecoder refuses a frame by its header, before its payload", () => {
  const refused = (header: number[]) =>
    assertThrows(() => [...new FrameDecoder().push(new Uint8Array(header))], LinkError);
  refused([FrameType.DATA, 0, 0, 0, 1, 0, 1, 0, 1]); // one byte too long
  refused([FrameType.DATA, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]);
  refused([FrameType.WIN, 0, 0, 0, 1, 0, 0, 0, 5]);
  refused([FrameType.OPEN, 0, 0, 0, 1, 0, 0, 0, 1]);
  refused([8, 0, 0, 0, 1, 0, 0, 0, 0]);
});

Deno.test("encodeCredit() and creditOf() agree on every number", () => {
  fc.assert(fc.property(u32, u32, (stream, count) => {
    const [frame] = [...new FrameDecoder().push(encodeCredit(stream, count))];
    assert(frame !== undefined);
    assertEquals([frame.stream, creditOf(frame)], [stream, count]);
  }));
});
