/** "Going away", in the words of the WebSocket protocol. */
const GOING_AWAY = 1001;

/** The WebSockets of a door, to be closed at its end. */
export class OpenSockets {
  readonly #closed = new Map<WebSocket, Promise<void>>();

  /** Keeps a socket until it is closed. */
  add(socket: WebSocket): void {
    const closed = Promise.withResolvers<void>();
    this.#closed.set(socket, closed.promise);
    socket.addEventListener("close", () => {
      this.#closed.delete(socket);
      closed.resolve();
    });
  }

  /** Says at the other sides that this is the end. */
  async close(): Promise<void> {
    for (const socket of this.#closed.keys()) socket.close(GOING_AWAY);
    await Promise.all(this.#closed.values());
  }
}
