import { ChunkQueue } from "../kernel/chunk_queue.ts";
import type { Execution } from "../kernel/execution.ts";
import type { ServerEvent } from "../tool_server/server_events.ts";
import type { ChunkEvent, ExecutionEvent, InputEvent } from "./events.ts";

/** The events that are told whole, however slow their reader is. */
type LastingEvent = Exclude<ExecutionEvent, ChunkEvent>;

/**
 * The events between an execution and whoever follows it, in order.
 *
 * A reader that pauses must not fill the memory of this process: beyond 16 MiB that wait to be read
 * chunks are left out, which a chunk says, and so are events of MCP servers. Requests and the result
 * are never left out.
 */
export class EventQueue {
  readonly #queue = new ChunkQueue<LastingEvent>();

  /** Adds an event that somebody must see. */
  add(event: Exclude<LastingEvent, ServerEvent | InputEvent>): void {
    this.#queue.add(event);
  }

  /** Adds what a server tells, unless too much waits already. */
  addServerEvent(event: ServerEvent): void {
    const size = JSON.stringify(event).length;
    if (this.#queue.hasRoom(size)) this.#queue.add(event, size);
  }

  /** Adds what the code asks, unless too much waits already: then it hears that nobody answers. */
  addInput(event: InputEvent): void {
    const size = event.request.prompt.length;
    if (this.#queue.hasRoom(size)) this.#queue.add(event, size);
    else event.request.end();
  }

  /** Adds an execution's chunks, if they are asked for, and its end. Never rejects. */
  async follow(execution: Execution, options: { readonly chunks: boolean }): Promise<void> {
    try {
      if (options.chunks) {
        for await (const { stream, text } of execution) this.#queue.push(stream, text);
      }
      this.#queue.add({ type: "result", result: await execution.result });
      this.#queue.end();
    } catch (error) {
      this.#queue.fail(error);
    }
  }

  /** The events, until the result or what the execution failed with. */
  async *[Symbol.asyncIterator](): AsyncGenerator<ExecutionEvent, void, undefined> {
    for (;;) {
      const event = await this.#queue.next();
      if (event === undefined) return;
      if (event.type !== "chunk") yield event;
      else {
        const stream = event.stream === "stderr" ? "stderr" : "stdout";
        yield { type: "chunk", stream, text: event.text };
      }
    }
  }
}
