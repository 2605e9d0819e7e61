/**
 * What tests say at a kernel's door.
 *
 * @module
 */
import type { Door } from "../../src/calls/tool_server.ts";

const encoder = new TextEncoder();

/** A call as it is sent. */
export function callText(door: Door, name: string, body: string, head: object = {}): string {
  const size = encoder.encode(body).length;
  return `${JSON.stringify({ token: door.token, call: name, size, ...head })}\n${body}`;
}

/** Makes a call, and gives its answer, which may be none. */
export async function callDoor(
  door: Door,
  name: string,
  body: string,
  head: object = {},
): Promise<Record<string, unknown> | undefined> {
  return await sayAtDoor(door, callText(door, name, body, head));
}

/** Sends bytes as they are, and gives the line that comes back, if one does. */
export async function sayAtDoor(
  { hostname, port }: Door,
  ...pieces: readonly (string | Uint8Array)[]
): Promise<Record<string, unknown> | undefined> {
  using connection = await Deno.connect({ hostname, port });
  try {
    for (const piece of pieces) {
      const bytes = typeof piece === "string" ? encoder.encode(piece) : piece;
      for (let at = 0; at < bytes.length;) at += await connection.write(bytes.subarray(at));
    }
    const decoder = new TextDecoder();
    const buffer = new Uint8Array(1 << 16);
    let text = "";
    for (let n: number | null; (n = await connection.read(buffer)) !== null;) {
      text += decoder.decode(buffer.subarray(0, n), { stream: true });
      if (text.endsWith("\n")) return JSON.parse(text);
    }
    return undefined;
  } catch {
    return undefined; // it hung up
  }
}
