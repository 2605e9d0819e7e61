/**
 * Tools that run as tasks, as protocol version 2025-11-25 has them: the call gives a handle, and a
 * second request waits for the result.
 *
 * @module
 */
import { z } from "zod";
import { ToolCallError } from "../errors.ts";
import type { Client, RequestOptions } from "./sdk.ts";
import type { Tool } from "./tool_list.ts";

/** What the server said of tasks in the handshake. */
const capability = z.object({
  tasks: z.object({ requests: z.object({ tools: z.object({ call: z.looseObject({}) }) }) }),
});
const execution = z.object({ taskSupport: z.literal("required") });
const created = z.object({ task: z.object({ taskId: z.string() }) });

const AS_IT_CAME = z.unknown();
/** How long a server may take to take note that a task is cancelled. */
const CANCEL_MS = 5000;

/** Whether a server can be asked to run tools as tasks; the newer era has no such request. */
export function offersTasks(client: Client): boolean {
  return client.getProtocolEra() !== "modern" &&
    capability.safeParse(client.getServerCapabilities()).success;
}

/** Whether a tool refuses calls that are not tasks. */
export function requiresTask(tool: Tool | undefined): boolean {
  return execution.safeParse(tool?.execution).success;
}

/** Runs a tool as a task and waits for its result. */
export async function runTask(
  client: Client,
  params: Readonly<Record<string, unknown>>,
  options: RequestOptions & { readonly unable: (error: unknown) => void },
): Promise<unknown> {
  const { unable, ...request } = options;
  const start = { method: "tools/call", params: { ...params, task: {} } };
  const { data } = created.safeParse(await client.request(start, AS_IT_CAME, request));
  if (data === undefined) {
    throw new ToolCallError("protocol_error", "The server did not run the tool as a task");
  }
  const { taskId } = data.task;
  try {
    // The server answers when the task has ended, and asks meanwhile what it has to ask.
    return await client.request(
      { method: "tasks/result", params: { taskId } },
      AS_IT_CAME,
      request,
    );
  } catch (error) {
    if (request.signal?.aborted) {
      const timeout = { timeout: CANCEL_MS };
      client.request({ method: "tasks/cancel", params: { taskId } }, AS_IT_CAME, timeout)
        .catch(unable);
    }
    throw error;
  }
}
