import { settledWithin } from "../async/signals.ts";
import { KERNEL_PROTOCOL } from "./jupyter.ts";

/** How long a closing handshake may take before the socket is left to the process's end. */
const CLOSE_TIMEOUT_MS = 1000;

/** The open WebSocket of a kernel's channels. */
export class KernelSocket implements AsyncDisposable {
  /** Resolves, with what is known of the reason, when the socket is closed for whatever reason. */
  readonly closed: Promise<string>;
  readonly #socket: WebSocket;

  private constructor(socket: WebSocket, closed: Promise<string>) {
    this.#socket = socket;
    this.closed = closed;
  }

  /** Waits until a socket is open. */
  static async open(
    socket: WebSocket,
    onMessage: (data: ArrayBuffer) => void,
    signal: AbortSignal,
  ): Promise<KernelSocket> {
    const opened = Promise.withResolvers<void>();
    const closed = Promise.withResolvers<string>();
    let failure = "";
    socket.onopen = () => opened.resolve();
    socket.onerror = (event) => {
      if (event instanceof ErrorEvent) failure = event.message;
    };
    socket.onclose = (event) => {
      const reason = event.reason || failure || `WebSocket closed with code ${event.code}`;
      closed.resolve(reason);
      opened.reject(new Error(`Cannot connect to the kernel: ${reason}`));
    };
    socket.onmessage = ({ data }) => {
      if (data instanceof ArrayBuffer) onMessage(data);
    };
    const abort = () => {
      opened.reject(signal.reason);
      socket.close();
    };
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    const kernelSocket = new KernelSocket(socket, closed.promise);
    try {
      await opened.promise;
      if (socket.protocol !== KERNEL_PROTOCOL) {
        throw new Error(
          `The kernel gateway does not speak ${KERNEL_PROTOCOL}; use jupyter_server 2 or newer`,
        );
      }
      return kernelSocket;
    } catch (error) {
      await kernelSocket[Symbol.asyncDispose]();
      throw error;
    } finally {
      signal.removeEventListener("abort", abort);
    }
  }

  /** Sends a message. After the socket was closed it is dropped; {@linkcode closed} tells. */
  send(data: string | ArrayBuffer): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(data);
  }

  /** Whether all that was sent has left. */
  get isDrained(): boolean {
    return this.#socket.bufferedAmount === 0;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket.onmessage = null;
    this.#socket.close();
    await settledWithin(this.closed, CLOSE_TIMEOUT_MS);
  }
}
