import { z } from "zod";

const messageSchema = z.object({
  msg_type: z.string(),
  parent_header: z.object({ msg_id: z.string().optional() }),
  content: z.object({
    text: z.string().optional(),
    evalue: z.string().optional(),
    execution_state: z.string().optional(),
  }),
});

/** The least client that can run code in a kernel, over plain HTTP and a plain WebSocket. */
export class RawKernel implements AsyncDisposable {
  #count = 0;

  private constructor(readonly id: string, readonly socket: WebSocket) {}

  /**
   * Starts a kernel and connects to it.
   *
   * @param gateway Where, and with what token.
   * @returns The kernel.
   */
  static async start(gateway: { url: URL; token: string }): Promise<RawKernel> {
    const headers = { authorization: `token ${gateway.token}` };
    const answer = await fetch(new URL("api/kernels", gateway.url), { method: "POST", headers });
    if (answer.status !== 201) throw new Error(`No kernel: ${await answer.text()}`);
    const { id } = z.object({ id: z.string() }).parse(await answer.json());
    const url = new URL(`api/kernels/${id}/channels`, gateway.url);
    url.protocol = "ws";
    url.searchParams.set("token", gateway.token);
    const socket = new WebSocket(url);
    const opened = Promise.withResolvers<void>();
    socket.onopen = () => opened.resolve();
    socket.onerror = () => opened.reject(new Error("No connection to the kernel"));
    await opened.promise;
    return new RawKernel(id, socket);
  }

  /**
   * Runs code.
   *
   * @param code The code.
   * @returns What it printed, and the message of its exception.
   */
  run(code: string): Promise<string> {
    const id = `execution-${this.#count++}`;
    const done = Promise.withResolvers<string>();
    let text = "";
    const left = new Set(["execute_reply", "idle"]);
    this.socket.onclose = () => done.reject(new Error(`The connection closed after: ${text}`));
    this.socket.onmessage = ({ data }) => {
      const message = messageSchema.parse(JSON.parse(data));
      if (message.parent_header.msg_id !== id) return;
      text += message.content.text ?? "";
      if (message.msg_type === "error") text += message.content.evalue ?? "";
      left.delete(message.msg_type);
      if (message.msg_type === "status") left.delete(message.content.execution_state ?? "");
      if (left.size === 0) done.resolve(text);
    };
    this.socket.send(JSON.stringify({
      channel: "shell",
      header: {
        msg_id: id,
        msg_type: "execute_request",
        session: "test",
        username: "",
        version: "5.3",
        date: "",
      },
      parent_header: {},
      metadata: {},
      content: {
        code,
        silent: false,
        store_history: false,
        user_expressions: {},
        allow_stdin: false,
      },
      buffers: [],
    }));
    return done.promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = Promise.withResolvers<void>();
    this.socket.onclose = () => closed.resolve();
    if (this.socket.readyState === WebSocket.CLOSED) return;
    this.socket.close();
    await closed.promise;
  }
}
