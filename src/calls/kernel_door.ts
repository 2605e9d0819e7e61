import { limitedLogger, type Logger } from "../base/log.ts";
import type { ByteStream } from "../base/streams.ts";
import { randomToken } from "../base/tokens.ts";
import {
  type DoorAnswer,
  Refused,
  refusePages,
  requireJson,
  requireMethod,
  requireToken,
} from "./door.ts";
import { DoorServer, type IncomingRequest } from "./door_server.ts";
import type { ToolProgress } from "../mcp/hooks.ts";
import type { ToolRunner } from "./runner.ts";
import {
  approvedText,
  errorText,
  parseApproveRequest,
  parseCatalogRequest,
  parseRunRequest,
  progressLine,
  resultText,
  wireError,
} from "./wire.ts";

/** What the kernel's door is made of. */
export interface KernelDoorOptions {
  /** Runs tools and has shell commands approved. */
  readonly runner: ToolRunner;
  /** The largest request body, in bytes. */
  readonly maxBodyBytes: number;
  /** Told of failures that the kernel is not told of. */
  readonly log: Logger;
}

/** Where the runtime says from which line of the execution's code it was called. */
const LINE_HEADER = "x-ipybox-line";

type Route = (request: IncomingRequest) => Promise<string>;

/**
 * The door for code in the kernel: it may ask for a tool, a resource or a prompt of a registered
 * server, ask for approval of a shell command, and see that the door is open. Nothing else.
 *
 * Its token belongs to one kernel: the one of a kernel that is over opens nothing, even if something
 * of that kernel has outlived it. Disposing the door closes it.
 */
export class KernelDoor implements AsyncDisposable {
  readonly #server: DoorServer;
  #token: string = randomToken();

  /** @param options Who does the work. It is open for whoever leads connections to it. */
  constructor(options: KernelDoorOptions) {
    this.#server = doorServer(options, () => this.#token);
  }

  /** The token of the code in the kernel. */
  get token(): string {
    return this.#token;
  }

  /** Has another kernel come through the door. */
  renew(): string {
    this.#token = randomToken();
    this.#server.hangUp();
    return this.#token;
  }

  /** Listens on a free port of 127.0.0.1, and gives the port. */
  listen(): number {
    return this.#server.listen();
  }

  /** Answers the requests on a connection; resolves, never rejects, when nothing of them is left. */
  async serve(stream: ByteStream): Promise<void> {
    await this.#server.serve(stream);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server[Symbol.asyncDispose]();
  }
}

function doorServer(options: KernelDoorOptions, token: () => string): DoorServer {
  const { runner, maxBodyBytes } = options;
  const log = limitedLogger(options.log);
  const routes = new Map<string, Route>([
    ["/run", (request) => run(runner, request)],
    ["/catalog", (request) => catalog(runner, request)],
    ["/approve", (request) => approve(runner, request)],
    ["/status", status],
  ]);
  const handler = async (request: IncomingRequest): Promise<DoorAnswer> => {
    try {
      refusePages(request);
      requireToken(request, token());
      const route = routes.get(request.target);
      if (route === undefined) throw new Refused(404, "Unknown path");
      return { status: 200, text: await route(request) };
    } catch (error) {
      if (error instanceof Refused) return refusal(error);
      const wire = wireError(error);
      if (wire.type === "tool_server_error" && !request.signal.aborted) {
        log.error(`Tool server: ${error}`);
      }
      return { status: 200, text: errorText(wire) };
    }
  };
  return new DoorServer({ handler, refusal, maxBodyBytes });
}

/** The line that called. To be asked before anything is waited for: another execution may begin. */
function sourceOf(
  runner: ToolRunner,
  request: IncomingRequest,
): ReturnType<ToolRunner["sourceAt"]> | undefined {
  const line = request.headers.get(LINE_HEADER);
  return line === null || line === undefined ? undefined : runner.sourceAt(Number(line));
}

async function run(runner: ToolRunner, request: IncomingRequest): Promise<string> {
  const source = sourceOf(runner, request);
  const { call, timeoutMs, progress } = await jsonBody(request, parseRunRequest);
  const { signal } = request;
  const onProgress = progress
    ? (report: ToolProgress) => request.tell(progressLine(report))
    : undefined;
  return resultText(await runner.runCall({ ...call, source }, { signal, timeoutMs, onProgress }));
}

async function catalog(runner: ToolRunner, request: IncomingRequest): Promise<string> {
  const source = sourceOf(runner, request);
  const { call, timeoutMs } = await jsonBody(request, parseCatalogRequest);
  return resultText(
    await runner.catalog({ ...call, source }, { signal: request.signal, timeoutMs }),
  );
}

async function approve(runner: ToolRunner, request: IncomingRequest): Promise<string> {
  const source = sourceOf(runner, request);
  const call = await jsonBody(request, parseApproveRequest);
  return approvedText(await runner.approve({ ...call, source }, request.signal));
}

function status(request: IncomingRequest): Promise<string> {
  requireMethod(request, "GET");
  return Promise.resolve('{"status":"ok"}');
}

async function jsonBody<T>(
  request: IncomingRequest,
  parse: (body: Uint8Array) => T,
): Promise<T> {
  requireMethod(request, "POST");
  requireJson(request);
  return await request.readBody((body) => {
    try {
      return parse(body);
    } catch (error) {
      if (error instanceof TypeError) throw new Refused(400, error.message);
      throw error;
    }
  });
}

function refusal({ status, message }: Refused): DoorAnswer {
  return { status, text: errorText({ type: "tool_server_error", message }) };
}
