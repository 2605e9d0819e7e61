/**
 * Waits until a gateway answers a request. It is sent once: what listens is there from the start,
 * and answers as soon as the gateway is up.
 *
 * This is plain HTTP over a plain socket, because `fetch` might go through a proxy of the user's.
 */
export async function untilAnswers(
  port: number,
  token: string,
  signal: AbortSignal,
): Promise<void> {
  const connection = await Deno.connect({ hostname: "127.0.0.1", port });
  const close = () => connection.close();
  signal.addEventListener("abort", close, { once: true });
  try {
    const lines = [
      "GET /api HTTP/1.1",
      `Host: 127.0.0.1:${port}`,
      `Authorization: token ${token}`,
      "Connection: close",
    ];
    await connection.write(new TextEncoder().encode(lines.join("\r\n") + "\r\n\r\n"));
    const answer = await readAnswer(connection);
    if (!answer.startsWith("HTTP/1.1 200 ")) {
      throw new Error(`The kernel gateway answers, but says: ${answer.split("\r\n")[0]}`);
    }
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener("abort", close);
    if (!signal.aborted) close();
  }
}

/** Reads an answer to its end, but not more than a gateway would say. */
async function readAnswer(connection: Deno.TcpConn): Promise<string> {
  const buffer = new Uint8Array(8192);
  let length = 0;
  while (length < buffer.length) {
    const count = await connection.read(buffer.subarray(length));
    if (count === null) break;
    length += count;
  }
  return new TextDecoder().decode(buffer.subarray(0, length));
}
