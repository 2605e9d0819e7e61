import { ApprovalPage } from "../approval/page/page.ts";
import { type ApprovalPageOptions, PageDesk, type PersonDesks } from "../approval/page/desk.ts";
import { settledWithin } from "../base/signals.ts";
import { type Logger, stderrLogger } from "../base/log.ts";
import { LastingServer } from "../base/lasting_server.ts";
import { ApplicationDoor } from "./application.ts";
import { randomToken } from "../base/tokens.ts";
import type { ByteStream } from "../base/streams.ts";
import type { CallJournal } from "./journal.ts";
import type { DoorServer } from "./door_server.ts";
import { kernelDoor } from "./kernel_door.ts";
import { ToolRunner, type ToolRunnerOptions } from "./runner.ts";

/** Options of {@linkcode ToolServer.start}. */
export interface ToolServerOptions extends ToolRunnerOptions {
  /**
   * The largest body of a request or call, in bytes.
   *
   * @default {67108864}
   */
  maxBodyBytes?: number;
  /**
   * Whether the kernel's door has a port. Without one, connections are led to it by
   * {@linkcode ToolServer.serveKernel}, and no other process can knock.
   *
   * @default {true}
   */
  kernelPort?: boolean;
  /**
   * Makes this the tool server of a durable session: each call is written down there, and made only
   * once, however often the kernel asks for it. Disposing the tool server leaves the session; the
   * journal stays open.
   *
   * @internal
   */
  journal?: CallJournal;
  /**
   * The bearer token that a kernel which is running already has.
   *
   * @default {undefined} a new one
   */
  kernelToken?: string;
  /**
   * Looks for calls that wait in other sessions, which pages name.
   *
   * @internal
   */
  elsewhere?: PersonDesks["elsewhere"];
  /** How long links to the approval page, and pages that have gone, are waited for. */
  approvalPage?: ApprovalPageOptions;
}

/** Where a door of a {@linkcode ToolServer} is, and what opens it. */
export interface Door {
  /**
   * Its address, on loopback: `http:` for the application's door; `tcp:` for the kernel's, where only
   * `ipybox_runtime` calls.
   */
  readonly url: URL;
  /** Its host, as a number. */
  readonly hostname: string;
  /** Its port. */
  readonly port: number;
  /** What every request or call must show. */
  readonly token: string;
}

const MAX_BODY_BYTES = 64 * 2 ** 20;
/** How long requests that are being answered are waited for at the end. */
const FAREWELL_MS = 2000;

/**
 * Runs tools for code in a kernel, after the application's approval. Disposing it stops everything.
 *
 * It has two doors, with a token each: one for the kernel, which can only ask, and one
 * for the application, which decides.
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
  /** The door for the application. Its token must not be given to the kernel. */
  readonly applicationDoor: Door;
  /** Runs the tools; its channel is where an approver in this process attaches. */
  readonly runner: ToolRunner;
  /** The web page on which a person decides. */
  readonly page: ApprovalPage;

  readonly #stack: AsyncDisposableStack;
  readonly #kernel: DoorServer;
  readonly #kernelPort: number | undefined;
  readonly #journal: CallJournal | undefined;

  private constructor(parts: Parts, stack: AsyncDisposableStack) {
    this.runner = parts.runner;
    this.page = parts.page;
    this.applicationDoor = parts.applicationDoor;
    this.#kernel = parts.kernel;
    this.#kernelPort = parts.kernelPort;
    this.#journal = parts.journal;
    this.#stack = stack;
  }

  /**
   * Opens both doors.
   *
   * @param options The servers, how calls are approved, and limits.
   * @returns The running tool server.
   * @throws {ConfigError} The registry cannot be read.
   */
  static async start(options: ToolServerOptions = {}): Promise<ToolServer> {
    const { maxBodyBytes = MAX_BODY_BYTES, kernelPort = true, log = stderrLogger() } = options;
    await using stack = new AsyncDisposableStack();
    const runner = await ToolRunner.start({ ...options, log });
    const { workspace, approvalPage, elsewhere } = options;
    const { channel, elicitations } = runner;
    const desk = stack.use(
      new PageDesk({ channel, elicitations, workspace, elsewhere }, approvalPage),
    );
    const page = new ApprovalPage(desk, () => applicationDoor.url);
    const common = { runner, maxBodyBytes, log };

    const { journal, kernelToken } = options;
    const kernel = stack.use(kernelDoor({ ...common, journal, kernelToken }));
    const port = kernelPort ? kernel.listen() : undefined;
    const token = randomToken();
    const door: ApplicationDoor = new ApplicationDoor({
      ...common,
      page,
      desk,
      host: () => applicationDoor.url.host,
      token,
    });
    const applicationDoor: Door = listen((request) => door.handle(request), { token, log }, stack);
    stack.defer(async () => void await settledWithin(door.close(), FAREWELL_MS));
    stack.use(runner); // ends first: what it still has to answer must not keep the doors open
    if (journal !== undefined) {
      stack.defer(async () => {
        kernel.cut(); // the calls are for the next tool server, so they get no answer from this one
        await journal.leave();
      });
    }
    const parts = { runner, page, kernel, kernelPort: port, applicationDoor, journal };
    return new ToolServer(parts, stack.move());
  }

  /** The bearer token of the kernel's requests. */
  get kernelToken(): string {
    return this.#kernel.token;
  }

  /**
   * Makes another token for the kernel's requests, as for a kernel that replaces another one. Whoever
   * has the one before is refused from now on, and what it has asked for is cancelled.
   *
   * @returns The token.
   */
  renewKernelToken(): string {
    this.#journal?.cancelAll();
    return this.#kernel.renew();
  }

  /**
   * The door for code in the kernel.
   *
   * @throws {Error} It has no port, as `kernelPort` said.
   */
  get kernelDoor(): Door {
    const port = this.#kernelPort;
    if (port !== undefined) return doorAt("tcp", port, this.kernelToken);
    throw new Error("This tool server has no port for kernels: kernelPort is false");
  }

  /**
   * Answers the requests of code in the kernel that come on a connection.
   *
   * @param stream The connection, which is closed at the end.
   * @returns Resolves, never rejects, when nothing of them is left.
   */
  async serveKernel(stream: ByteStream): Promise<void> {
    await this.#kernel.serve(stream);
  }

  /** @internal Ends the connections of code in the kernel without answers: it asks the next host again. */
  cutKernel(): void {
    this.#kernel.cut();
  }

  /**
   * Makes a link to the approval page. It works once, and for some minutes.
   *
   * @returns The link, only for the person who decides.
   */
  approvalPage(): URL {
    return this.page.url();
  }

  /** Refuses what waits for approval, cancels what runs, and stops the servers. */
  async reset(): Promise<void> {
    await this.runner.reset();
  }

  /** Closes both doors and stops the servers. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack[Symbol.asyncDispose]();
  }
}

/** What a {@linkcode ToolServer} is made of. */
interface Parts {
  readonly runner: ToolRunner;
  readonly page: ApprovalPage;
  readonly kernel: DoorServer;
  readonly kernelPort: number | undefined;
  readonly applicationDoor: Door;
  readonly journal: CallJournal | undefined;
}

function listen(
  handler: (request: Request) => Promise<Response>,
  { token, log }: { readonly token: string; readonly log: Logger },
  stack: AsyncDisposableStack,
): Door {
  const underWay = new Set<Promise<unknown>>();
  const server = stack.use(
    new LastingServer({
      hostname: "127.0.0.1",
      port: 0,
      handler: (request, { completed }) => {
        // It rejects when the other side has hung up, which is an end like any other.
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

function doorAt(scheme: "http" | "tcp", port: number, token: string): Door {
  const hostname = "127.0.0.1";
  return { url: new URL(`${scheme}://${hostname}:${port}`), hostname, port, token };
}
