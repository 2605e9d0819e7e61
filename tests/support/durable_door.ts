import { CallJournal } from "../../src/calls/journal.ts";
import {
  type OwnServerOptions,
  ToolServer,
  type ToolServerOptions,
} from "../../src/calls/tool_server.ts";
import { type Logger, silentLogger } from "../../src/base/log.ts";
import { acceptAll } from "../../src/base/http_server.ts";
import { type ByteStream, SocketStream } from "../../src/base/streams.ts";
import type { Door } from "../../src/calls/tool_server.ts";

/** Options of {@linkcode DurableDoor.attach}. */
export interface HostOptions extends ToolServerOptions {
  /** Where the session's journal is. */
  readonly folder: string;
  readonly log?: Logger;
}

/** A host that can be taken away: its tool server, and its journal. */
export class Host implements AsyncDisposable {
  constructor(readonly server: ToolServer, readonly journal: CallJournal) {}

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server[Symbol.asyncDispose]();
    this.journal[Symbol.dispose]();
  }
}

/** The door of a durable session as its kernel sees it: there, whichever host is behind it, if any. */
export class DurableDoor implements AsyncDisposable {
  readonly #token = "t".repeat(43);
  readonly #streams = new Set<ByteStream>();
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #accepting: Promise<void>;
  #host: Host | undefined;

  constructor() {
    this.#accepting = acceptAll(this.#listener, (connection) => {
      const stream = new SocketStream(connection);
      if (this.#host === undefined) return stream.close();
      this.#streams.add(stream);
      this.#host.server.serveKernel(stream).then(() => this.#streams.delete(stream));
    });
  }

  /** Where the kernel calls. */
  get door(): Door {
    const { port } = this.#listener.addr;
    const url = new URL(`tcp://127.0.0.1:${port}`);
    return { url, hostname: "127.0.0.1", port, token: this.#token };
  }

  /** Starts a host, and leads the kernel to it. */
  async attach({ folder, log = silentLogger, ...options }: HostOptions): Promise<Host> {
    const journal = await CallJournal.open(folder, log);
    const own: OwnServerOptions = {
      kernelPort: false,
      log,
      ...options,
      journal,
      kernelToken: this.#token,
    };
    const server = await ToolServer.start(own);
    return this.#host = new Host(server, journal);
  }

  /** Breaks all connections; those that follow are led to the host, if it is attached. */
  cut(): void {
    for (const stream of this.#streams) stream.close();
  }

  /** Leads the kernel nowhere. */
  detach(): void {
    this.#host = undefined;
    this.cut();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.detach();
    this.#listener.close();
    await this.#accepting;
  }
}
