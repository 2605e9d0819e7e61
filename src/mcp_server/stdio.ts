import { serverFor } from "./connection.ts";
import { serveStdio, StdioServerTransport } from "./sdk.ts";
import { Session, type SessionOptions } from "./session.ts";

/** The largest message; images are long lines. */
const MAX_MESSAGE_BYTES = 256 * 2 ** 20;

/** The MCP server of one client, on this process's stdin and stdout. Disposing it ends the kernel. */
export class StdioServer implements AsyncDisposable {
  /** Resolves when the client has closed the connection. */
  readonly closed: Promise<void>;
  readonly #parts = new AsyncDisposableStack();

  constructor({ version = "0", ...options }: SessionOptions) {
    const session = this.#parts.use(new Session(options));
    const transport = new StdioServerTransport(undefined, undefined, {
      maxBufferSize: MAX_MESSAGE_BYTES,
    });
    // Importing the modules that run the kernel doubles the start time, and clients give up on servers
    // that are slow to answer.
    if (session.prefersPage) session.begin();
    else onSentTools(transport, () => session.begin());
    const { promise: closed, resolve: close } = Promise.withResolvers<void>();
    this.closed = closed;
    const handle = serveStdio(
      ({ era }) => serverFor(session, { version, taskPrefix: era === "modern" ? "" : undefined }),
      { transport },
    );
    // The SDK has set its own handler by now. A client may disconnect before it sends anything.
    const onclose = transport.onclose;
    transport.onclose = () => {
      session.onDisconnect(); // before its requests are cancelled
      onclose?.();
      close();
    };
    this.#parts.defer(() => {
      session.onDisconnect();
      return handle.close();
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts.disposeAsync();
  }
}

/** Calls back once the list of tools has been sent. */
function onSentTools(transport: StdioServerTransport, callback: () => void): void {
  const send = transport.send.bind(transport);
  transport.send = async (...message) => {
    await send(...message);
    if (!listsTools(message[0])) return;
    transport.send = send;
    callback();
  };
}

function listsTools(message: object): boolean {
  const result = "result" in message ? message.result : undefined;
  return typeof result === "object" && result !== null && "tools" in result;
}
