// deno-lint-ignore-file no-console -- a script talks to whoever started it
/**
 * A durable session: one program starts code and ends, the next one gets its output.
 *
 * Run it with `deno run -A examples/durable_session.ts`, and then with the id that it prints.
 *
 * @module
 */
import { CodeExecutor } from "@ipybox/ipybox";

const TRAINING = `
import time

for epoch in range(1, 4):
    loss /= 2
    print(f"Epoch {epoch}: loss {loss}", flush=True)
    time.sleep(1)
`;

/** Starts a session and leaves it. */
async function start(): Promise<void> {
  const workspace = await Deno.makeTempDir({ prefix: "ipybox-" });
  await using executor = await CodeExecutor.start({ workspace, durable: { idleMs: 3_600_000 } });
  await executor.execute("loss = 1.0");
  await executor.detach({ code: TRAINING });
  console.log("The code runs without this program. To continue:");
  console.log(`deno run -A examples/durable_session.ts ${executor.sessionId}`);
}

/** Continues a session to the end of its code, and ends it. */
async function resume(id: string): Promise<string> {
  await using executor = await CodeExecutor.attach(id);
  for await (const event of executor.resume({ events: ["chunk"] })) {
    if (event.type === "approval") await event.request.reject("This example calls no tools");
    if (event.type === "chunk") console.log(event.text.trimEnd()); // also what was missed
  }
  const { text } = await executor.execute("loss");
  console.log(`Variables are kept, too: loss is ${text}.`);
  return executor.workspace;
}

const [id] = Deno.args;
if (id === undefined) await start();
else await Deno.remove(await resume(id), { recursive: true });
