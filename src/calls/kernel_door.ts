import { limitedLogger, type Logger } from "../base/log.ts";
import { Refused } from "./door.ts";
import { DoorServer, type IncomingCall } from "./door_server.ts";
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
interface KernelDoorOptions {
  /** Runs tools and has shell commands approved. */
  readonly runner: ToolRunner;
  /** The largest body of a call, in bytes. */
  readonly maxBodyBytes: number;
  /** Gets the failures that the kernel does not learn of. */
  readonly log: Logger;
}

/**
 * The door for code in the kernel: it may ask for a tool, a resource or a prompt of a registered
 * server, and for approval of a shell command. Nothing else.
 */
export function kernelDoor(options: KernelDoorOptions): DoorServer {
  const { runner, maxBodyBytes } = options;
  const log = limitedLogger(options.log);
  const handler = async (call: IncomingCall): Promise<string> => {
    try {
      return await answer(runner, call);
    } catch (error) {
      if (error instanceof Refused) throw error;
      const wire = wireError(error);
      if (wire.type === "tool_server_error" && !call.signal.aborted) {
        log.error(`Tool server: ${error}`);
      }
      return errorText(wire);
    }
  };
  return new DoorServer({ handler, maxBodyBytes });
}

async function answer(runner: ToolRunner, call: IncomingCall): Promise<string> {
  const { head, signal } = call;
  // Before anything is waited for: another execution may begin.
  const source = head.line === undefined ? undefined : runner.sourceAt(head.line);
  switch (head.call) {
    case "run": {
      const request = await bodyOf(call, parseRunRequest);
      const onProgress = request.progress
        ? (report: ToolProgress) => call.tell(progressLine(report))
        : undefined;
      const { timeoutMs } = request;
      const options = { signal, timeoutMs, onProgress };
      return resultText(await runner.runCall({ ...request.call, source }, options));
    }
    case "catalog": {
      const { call: asked, timeoutMs } = await bodyOf(call, parseCatalogRequest);
      return resultText(await runner.catalog({ ...asked, source }, { signal, timeoutMs }));
    }
    case "approve": {
      const asked = await bodyOf(call, parseApproveRequest);
      return approvedText(await runner.approve({ ...asked, source }, signal));
    }
  }
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
