import { settledWithin } from "../async/signals.ts";
import type { Logger } from "../log.ts";
import {
  jsonResponse,
  readJsonBody,
  Refused,
  refusePages,
  requireMethod,
  requireToken,
} from "./door.ts";
import type { ToolProgress } from "../mcp/call_options.ts";
import type { ToolRunner } from "./tool_runner.ts";
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
  /** The token of the code in the kernel. */
  readonly token: string;
  /** The largest request body, in bytes. */
  readonly maxBodyBytes: number;
  /** Told of failures that the kernel is not told of. */
  readonly log: Logger;
}

/** How long an answer in one piece is waited for. */
const AT_ONCE_MS = 20;
/** How many lines wait for a caller that does not read. */
const MAX_UNREAD_LINES = 1000;

/** Where the runtime says from which line of the execution's code it was called. */
const LINE_HEADER = "x-ipybox-line";

type Route = (request: Request) => Promise<Response>;

/**
 * The door for code in the kernel: it may ask for a tool, a resource or a prompt of a registered
 * server, ask for approval of a shell command, and see that the door is open. Nothing else.
 *
 * @param options Who does the work, and the token.
 * @returns The handler.
 */
export function kernelDoor(options: KernelDoorOptions): (request: Request) => Promise<Response> {
  const { runner, token, maxBodyBytes, log } = options;
  const told = async (work: Promise<string>): Promise<string> => {
    try {
      return await work;
    } catch (error) {
      const wire = wireError(error);
      if (wire.type === "tool_server_error") log.error(`Tool server: ${error}`);
      return errorText(wire);
    }
  };
  // Before anything else is waited for: another execution may begin meanwhile.
  const sourceOf = (request: Request) => {
    const line = request.headers.get(LINE_HEADER);
    return line === null ? undefined : runner.sourceAt(Number(line));
  };
  const run: Route = async (request) => {
    requireMethod(request, "POST");
    const source = sourceOf(request);
    const { call, timeoutMs, progress } = malformed(
      parseRunRequest,
      await readJsonBody(request, maxBodyBytes),
    );
    return eventually((signal, tell) => {
      const onProgress = progress
        ? (report: ToolProgress) => tell(progressLine(report))
        : undefined;
      return told(
        runner.runCall({ ...call, source }, { signal, timeoutMs, onProgress }).then(resultText),
      );
    });
  };
  const catalog: Route = async (request) => {
    requireMethod(request, "POST");
    const source = sourceOf(request);
    const body = await readJsonBody(request, maxBodyBytes);
    const { call, timeoutMs } = malformed(parseCatalogRequest, body);
    return eventually((signal) =>
      told(runner.catalog({ ...call, source }, { signal, timeoutMs }).then(resultText))
    );
  };
  const approve: Route = async (request) => {
    requireMethod(request, "POST");
    const source = sourceOf(request);
    const call = malformed(parseApproveRequest, await readJsonBody(request, maxBodyBytes));
    return eventually((signal) =>
      told(runner.approve({ ...call, source }, signal).then(approvedText))
    );
  };
  const status: Route = (request) => {
    requireMethod(request, "GET");
    return Promise.resolve(jsonResponse('{"status":"ok"}'));
  };
  const routes = new Map([
    ["/run", run],
    ["/catalog", catalog],
    ["/approve", approve],
    ["/status", status],
  ]);
  return async (request) => {
    try {
      refusePages(request);
      requireToken(request, token);
      const route = routes.get(new URL(request.url).pathname);
      if (route === undefined) throw new Refused(404, "Unknown path");
      return await route(request);
    } catch (error) {
      if (error instanceof Refused) return refusal(error.status, error.message);
      log.error(`Tool server: ${error}`);
      return refusal(500, "The tool server failed; its log says why");
    }
  };
}

/**
 * Answers once something is done, and cancels it when whoever asked has gone.
 *
 * What is done at once is answered in one piece, which takes half the time. For the rest the body is
 * a stream, because that is told of the caller's end. The request's own signal also aborts after
 * responses that were sent, and Deno warns about every program that looks at it.
 */
async function eventually(
  run: (signal: AbortSignal, tell: (line: string) => void) => Promise<string>,
): Promise<Response> {
  const gone = new AbortController();
  const { signal } = gone;
  const early: string[] = [];
  let tell = (line: string): void => void early.push(line);
  const answer = run(signal, (line) => tell(line));
  if (await settledWithin(answer, AT_ONCE_MS)) return jsonResponse(early.join("") + await answer);

  const encoder = new TextEncoder();
  let ended = false;
  return jsonResponse(
    new ReadableStream<Uint8Array>({
      async start(controller) {
        tell = (line) => {
          // Whoever does not read has no use for news; the result is not lost.
          const unread = 1 - (controller.desiredSize ?? 1);
          if (ended || signal.aborted || unread > MAX_UNREAD_LINES) return;
          controller.enqueue(encoder.encode(line));
        };
        early.forEach((line) => tell(line));
        const text = await answer;
        ended = true;
        if (signal.aborted) return;
        controller.enqueue(encoder.encode(text));
        controller.close();
      },
      cancel: () => gone.abort(new DOMException("The caller has gone", "AbortError")),
    }),
  );
}

function malformed<T>(parse: (body: Uint8Array) => T, body: Uint8Array): T {
  try {
    return parse(body);
  } catch (error) {
    if (error instanceof TypeError) throw new Refused(400, error.message);
    throw error;
  }
}

function refusal(status: number, message: string): Response {
  return jsonResponse(errorText({ type: "tool_server_error", message }), status);
}
