import type { JupyterMessage } from "./jupyter.ts";
import { formatBytes } from "./text.ts";

/** The most that is kept between two executions, in bytes of messages. */
const MAX_BYTES = 1024 ** 2;

/**
 * What threads and tasks say while no execution is under way. The next execution gets it, as a
 * terminal would show it below.
 */
export class LateOutput {
  #messages: JupyterMessage[] = [];
  #bytes = 0;
  #leftOut = 0;

  /** Keeps a message, of a size in bytes. */
  add(message: JupyterMessage, size: number): void {
    if (this.#bytes + size > MAX_BYTES) {
      this.#leftOut += size;
      return;
    }
    this.#bytes += size;
    this.#messages.push(message);
  }

  /** Gives what is kept, and forgets it. */
  take(): JupyterMessage[] {
    const messages = this.#messages;
    if (this.#leftOut > 0) messages.push(note(this.#leftOut));
    this.#messages = [];
    this.#bytes = this.#leftOut = 0;
    return messages;
  }
}

/** Whether a message is output that stands for itself. */
export function isOutput({ channel, type }: JupyterMessage): boolean {
  return channel === "iopub" && ["stream", "display_data", "update_display_data"].includes(type);
}

function note(bytes: number): JupyterMessage {
  const text = `[ipybox: ${formatBytes(bytes)} of output between executions left out]\n`;
  return {
    channel: "iopub",
    type: "stream",
    parentId: undefined,
    parentSession: undefined,
    content: { name: "stderr", text },
  };
}
