import { limitedLogger, type Logger } from "../base/log.ts";
import { callHash } from "../approval/call_text.ts";
import type { ApprovalCall } from "../approval/request.ts";
import { Refused } from "./http_checks.ts";
import type { Calls, JournalEntry, RecordedCall } from "./calls.ts";
import type { CallJournal } from "./journal.ts";
import { type IncomingCall, KernelCallServer } from "./kernel_call_server.ts";
import type { ToolProgress } from "../mcp/hooks.ts";
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

/** Options of {@linkcode kernelCalls}. */
interface KernelCallsOptions {
  /** Runs tools and requests approval of shell commands. */
  readonly calls: Calls;
  /** The largest body of a call, in bytes. */
  readonly maxBodyBytes: number;
  /** Receives failures that the kernel must not see. */
  readonly log: Logger;
  /** Makes sure that each call of a durable session is made only once. */
  readonly journal?: CallJournal | undefined;
  /** The token of a kernel that is already running. */
  readonly kernelToken?: string | undefined;
}

/**
 * The door for code in the kernel, which can only request calls and the approval of shell commands.
 */
export function kernelCalls(options: KernelCallsOptions): KernelCallServer {
  const { calls, maxBodyBytes, journal, kernelToken: token } = options;
  const log = limitedLogger(options.log);

  /** Turns errors into answers. */
  async function settled(signal: AbortSignal, work: () => Promise<string>): Promise<string> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof Refused) throw error;
      const wire = wireError(error);
      if (wire.type === "tool_server_error" && !signal.aborted) {
        log.error(`Tool server: ${error}`);
      }
      return errorText(wire);
    }
  }

  /** Makes a call, or, with a journal, joins or repeats the outcome of an earlier attempt. */
  async function once(
    call: IncomingCall,
    asked: ApprovalCall,
    make: (attempt: Attempt) => Promise<string>,
  ): Promise<string> {
    const { signal, head: { id } } = call;
    if (journal === undefined) return await make({ signal, push: (json) => call.push(json) });
    if (id === undefined) throw new Refused(400, "A call of a durable session needs an id");
    const { kind, serverName, toolName } = asked;
    const key = { id, hash: callHash(asked), kind, serverName, toolName };
    return await journal.once(key, call, async (entry) => {
      const { signal } = entry;
      const push = (json: string) => entry.push(json); // to all attempts that wait for the call
      return await settled(signal, () => make({ signal, push, entry }));
    });
  }

  async function answer(call: IncomingCall): Promise<string> {
    const { head } = call;
    // Before the first await: another execution may begin.
    const source = head.line === undefined ? undefined : calls.sourceAt(head.line);
    switch (head.call) {
      case "run": {
        const { call: asked, timeoutMs, progress } = await bodyOf(call, parseRunRequest);
        return await once(call, { kind: "tool", ...asked }, async ({ signal, push, entry }) => {
          const onProgress = progress
            ? (report: ToolProgress) => push(progressLine(report))
            : undefined;
          const limits = { signal, timeoutMs, onProgress };
          const recorded: RecordedCall = { ...asked, source, entry };
          return resultText(await calls.callTool(recorded, limits));
        });
      }
      case "catalog": {
        const { call: asked, timeoutMs } = await bodyOf(call, parseCatalogRequest);
        const { signal } = call;
        return resultText(await calls.catalog({ ...asked, source }, { signal, timeoutMs }));
      }
      case "approve": {
        const asked = await bodyOf(call, parseApproveRequest);
        return await once(
          call,
          asked,
          async ({ signal, entry }) =>
            approvedText(await calls.approve({ ...asked, source }, { signal, entry })),
        );
      }
    }
  }

  const handler = (call: IncomingCall) => settled(call.signal, () => answer(call));
  return new KernelCallServer({ handler, maxBodyBytes, token });
}

/** An attempt to make a call, and its journal entry. */
interface Attempt extends Pick<IncomingCall, "signal" | "push"> {
  readonly entry?: JournalEntry;
}

async function bodyOf<T>(call: IncomingCall, parse: (body: Uint8Array) => T): Promise<T> {
  return await call.readBody((body) => {
    try {
      return parse(body);
    } catch (error) {
      if (error instanceof TypeError) throw new Refused(400, error.message);
      throw error;
    }
  });
}
