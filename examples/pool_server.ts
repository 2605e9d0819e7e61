// deno-lint-ignore-file no-console -- a script talks to whoever started it
/**
 * A pool behind `Deno.serve`: each request runs in a fresh kernel, without waiting for its start.
 *
 * Run it with `deno run -A examples/pool_server.ts`, send code as it says, and end it with Ctrl-C.
 *
 * @module
 */
import { CodeExecutionError, CodeExecutor, ExecutorPool } from "@ipybox/ipybox";

const token = crypto.randomUUID(); // web pages can send requests to this port, too

const folder = await Deno.makeTempDir();
await using cleanUp = new AsyncDisposableStack();
cleanUp.defer(() => Deno.remove(folder, { recursive: true }));
await using pool = await ExecutorPool.start({
  size: 2,
  start: async (signal) =>
    await CodeExecutor.start({ workspace: await Deno.makeTempDir({ dir: folder }), signal }),
});

async function answer(request: Request): Promise<Response> {
  if (request.headers.get("authorization") !== `Bearer ${token}`) {
    return new Response("Send the token\n", { status: 401 });
  }
  await using executor = await pool.acquire();
  const { signal } = request; // a client that leaves ends its code
  try {
    const { text } = await executor.execute(await request.text(), { timeoutMs: 60_000, signal });
    return new Response(`${text ?? ""}\n`);
  } catch (error) {
    if (!(error instanceof CodeExecutionError)) throw error;
    return new Response(`${error.traceback}\n`, { status: 422 });
  }
}

await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, answer);
const url = `http://127.0.0.1:${server.addr.port}/`;
console.log(`curl -H "Authorization: Bearer ${token}" -d "6 * 7" ${url}`);

const { promise: interrupted, resolve: interrupt } = Promise.withResolvers<void>();
for (const signal of ["SIGINT", "SIGTERM"] as const) Deno.addSignalListener(signal, interrupt);
await interrupted;
