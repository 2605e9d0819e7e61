/** How long to wait where no connection can be accepted: nobody says when one can be again. */
const RETRY_MS = 100;

/**
 * Accepts connections until the listener is closed. Where the process has no descriptor left, or the
 * user nothing to watch one by, the next ones wait.
 */
export async function acceptAll(
  listener: Deno.TcpListener,
  take: (connection: Deno.TcpConn) => void,
): Promise<void> {
  for (;;) {
    try {
      take(await listener.accept());
    } catch (error) {
      if (error instanceof Deno.errors.BadResource) return; // closed
      if (error instanceof Deno.errors.ConnectionAborted) continue; // by the client, meanwhile
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}
