import { ApprovalPage } from "../approval/page/page.ts";
import { type CallEnd, PageDesk, type PersonDesks } from "../approval/page/desk.ts";
import { settledWithin } from "../base/signals.ts";
import { type Logger, stderrLogger } from "../base/log.ts";
import { HttpServer } from "../base/http_server.ts";
import { ApprovalApi } from "./approval_api.ts";
import { randomToken } from "../base/tokens.ts";
import type { ByteStream } from "../base/streams.ts";
import type { CallJournal } from "./journal.ts";
import type { KernelCallServer } from "./kernel_call_server.ts";
import { kernelCalls } from "./kernel_calls.ts";
import { type OwnRunnerOptions, ToolRunner, type ToolRunnerOptions } from "./runner.ts";

/** Options of {@linkcode ToolServer.start}. */
export interface ToolServerOptions extends ToolRunnerOptions {
  /**
   * The maximum size of a request's or a call's body, in bytes.
   *
   * @default {16777216}
   */
  maxBodyBytes?: number;
  /**
   * Whether the kernel's door listens on a port. Otherwise, pass connections to
   * {@linkcode ToolServer.serveKernel}; no other process can connect then.
   *
   * @default {true}
   */
  kernelPort?: boolean;
  /**
   * The token of a kernel that is already running.
   *
   * @default {undefined} a new one
   */
  kernelToken?: string;
}

/** Options that an executor adds. */
export interface OwnServerOptions
  extends
    ToolServerOptions,
    OwnRunnerOptions,
    Pick<PersonDesks, "elsewhere" | "graceMs" | "linkMs"> {
  /**
   * The journal of a durable session, which makes sure that each call is made only once, however often
   * the kernel asks for it. Disposing the tool server leaves the session running and the journal open.
   */
  journal?: CallJournal;
}

/** The address and the token of a door of a {@linkcode ToolServer}. */
export interface Door {
  /**
   * Its address on loopback: `http:` for the application's door; `tcp:` for the kernel's, which only
   * `ipybox_runtime` uses.
   */
  readonly url: URL;
  /** Its host, as an IP address. */
  readonly hostname: string;
  /** Its port. */
  readonly port: number;
  /** The bearer token that every request or call must carry. */
  readonly token: string;
}

const MAX_BODY_BYTES = 16 * 2 ** 20;
/** How long disposal waits for requests that are being answered. */
const FAREWELL_MS = 2000;

/**
 * Runs tools for code in a kernel, once the application approves. Disposing it stops everything.
 *
 * It has two doors with separate tokens: one for the kernel, which can only ask, and one for the
 * application, which decides.
 *
 * @example
 * ```ts
 * import { ApprovalClient } from "@ipybox/ipybox/approval";
 * import { ToolServer } from "@ipybox/ipybox/tools";
 *
 * await using server = await ToolServer.start({
 *   servers: { files: { command: "npx", args: ["-y", "@modelcontextprotocol/server-filesystem", "/data"] } },
 *   approvalTimeoutMs: 60_000,
 * });
 * const { url, token } = server.applicationDoor;
 * await using _approver = await ApprovalClient.connect({
 *   url,
 *   token,
 *   onRequest: async (request) => void await request.accept(),
 * });
 * ```
 */
export class ToolServer implements AsyncDisposable {
  /** The door for the application. Never give its token to the kernel. */
  readonly applicationDoor: Door;
  /** Runs the tools. An approver in this process attaches to its `channel`. */
  readonly runner: ToolRunner;
  /** The web page on which a person decides. */
  readonly page: ApprovalPage;

  readonly #stack: AsyncDisposableStack;
  readonly #parts: Parts;

  private constructor(parts: Parts, stack: AsyncDisposableStack) {
    this.runner = parts.runner;
    this.page = parts.page;
    this.applicationDoor = parts.applicationDoor;
    this.#parts = parts;
    this.#stack = stack;
  }

  /**
   * Opens both doors.
   *
   * @param options The servers, the approval settings, and limits.
   * @returns The running tool server.
   * @throws {ConfigError} The registry cannot be read.
   */
  static async start(options: ToolServerOptions = {}): Promise<ToolServer> {
    const { maxBodyBytes = MAX_BODY_BYTES, kernelPort = true, log = stderrLogger() } = options;
    await using stack = new AsyncDisposableStack();
    const runner = await ToolRunner.start({ ...options, log });
    const own: OwnServerOptions = options;
    const { workspace, elsewhere, graceMs, linkMs, journal, kernelToken } = own;
    const { channel, elicitations } = runner;
    const desk = stack.use(
      new PageDesk({
        channel,
        elicitations,
        ...{ workspace, elsewhere, graceMs, linkMs },
        followEnds: (follower) => followEnds(runner, follower),
      }),
    );
    const page = new ApprovalPage(desk, () => applicationDoor.url);
    const common = { runner, maxBodyBytes, log };

    const kernel = stack.use(kernelCalls({ ...common, calls: runner.calls, journal, kernelToken }));
    const port = kernelPort ? kernel.listen() : undefined;
    const token = randomToken();
    const door: ApprovalApi = new ApprovalApi({
      ...common,
      page,
      desk,
      host: () => applicationDoor.url.host,
      token,
    });
    const listening = { token, log };
    const applicationDoor: Door = listen((request) => door.handle(request), listening, stack);
    stack.defer(async () => void await settledWithin(door.close(), FAREWELL_MS));
    stack.use(runner); // ends first: its pending answers must not keep the doors open
    if (journal !== undefined) {
      stack.defer(async () => {
        kernel.cut(); // without answers: the next tool server answers these calls
        await journal.leave();
      });
    }
    const parts = { runner, page, kernel, kernelPort: port, applicationDoor, journal };
    return new ToolServer(parts, stack.move());
  }

  /** The token of the kernel's calls. */
  get kernelToken(): string {
    return this.#parts.kernel.token;
  }

  /**
   * Creates a new token for the calls of a kernel that replaces the current one. Calls with the old
   * token are refused from now on, and those under way are cancelled.
   *
   * @returns The new token.
   */
  renewKernelToken(): string {
    this.#parts.journal?.cancelAll();
    return this.#parts.kernel.renew();
  }

  /**
   * The door for code in the kernel.
   *
   * @throws {Error} It has no port: `kernelPort` is `false`.
   */
  get kernelDoor(): Door {
    const port = this.#parts.kernelPort;
    if (port !== undefined) return doorAt("tcp", port, this.kernelToken);
    throw new Error("This tool server has no port for kernels: kernelPort is false");
  }

  /**
   * Answers the calls of code in the kernel on a connection.
   *
   * @param stream The connection, which is closed at the end.
   * @returns Resolves, never rejects, when the connection has ended.
   */
  async serveKernel(stream: ByteStream): Promise<void> {
    await this.#parts.kernel.serve(stream);
  }

  /** @internal Ends the connections of code in the kernel without answers: it asks the next host again. */
  cutKernel(): void {
    this.#parts.kernel.cut();
  }

  /**
   * Creates a link to the approval page. It works once, for a few minutes.
   *
   * @returns The link. Show it only to the person who decides.
   */
  approvalPage(): URL {
    return this.page.url();
  }

  /** Refuses pending approvals, cancels running calls and restarts the servers that were running. */
  async reset(): Promise<void> {
    await this.runner.reset();
  }

  /** Closes both doors and stops the servers. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack[Symbol.asyncDispose]();
  }
}

/** The parts of a {@linkcode ToolServer}. */
interface Parts {
  readonly runner: ToolRunner;
  readonly page: ApprovalPage;
  readonly kernel: KernelCallServer;
  readonly kernelPort: number | undefined;
  readonly applicationDoor: Door;
  readonly journal: CallJournal | undefined;
}

function listen(
  handler: (request: Request) => Promise<Response>,
  { token, log }: Pick<Door, "token"> & { readonly log: Logger },
  stack: AsyncDisposableStack,
): Door {
  const underWay = new Set<Promise<unknown>>();
  const server = stack.use(
    new HttpServer({
      hostname: "127.0.0.1",
      port: 0,
      handler: (request, { completed }) => {
        // It rejects when the other side has hung up, which is a normal end.
        const over = completed.catch(() => {}).finally(() => underWay.delete(over));
        underWay.add(over);
        return handler(request);
      },
      log,
    }),
  );
  stack.defer(async () => void await settledWithin(Promise.all(underWay), FAREWELL_MS));
  return doorAt("http", server.addr.port, token);
}

function followEnds({ events }: ToolRunner, follower: (end: CallEnd) => void): Disposable {
  return events.followCalls((event) => {
    if (event.type !== "call_ended") return;
    const { callId, status, durationMs, waitMs = 0 } = event;
    follower({ callId, status, durationMs: durationMs - waitMs });
  });
}

function doorAt(scheme: "http" | "tcp", port: number, token: string): Door {
  const hostname = "127.0.0.1";
  return { url: new URL(`${scheme}://${hostname}:${port}`), hostname, port, token };
}
