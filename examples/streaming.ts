// deno-lint-ignore-file no-console -- a script talks to whoever started it
/**
 * Output while it is produced, and three ways to end code: leaving the loop, a time limit, a signal.
 *
 * Run it with `deno run -A examples/streaming.ts`.
 *
 * @module
 */
import { CodeExecutor, ExecutionTimeoutError } from "@ipybox/ipybox";

const COUNT = `
import time

for step in range(1000):
    print(f"step {step}", flush=True)
    time.sleep(0.1)
`;

const workspace = await Deno.makeTempDir();
await using cleanUp = new AsyncDisposableStack();
cleanUp.defer(() => Deno.remove(workspace, { recursive: true }));
await using executor = await CodeExecutor.start({ workspace });

let shown = "";
for await (const event of executor.stream(COUNT, { events: ["chunk"] })) {
  if (event.type !== "chunk") continue;
  await Deno.stdout.write(new TextEncoder().encode(event.text));
  shown += event.text; // a chunk may end anywhere, also within a line
  if (shown.includes("step 3\n")) break; // leaving the loop cancels the code
}
const { text } = await executor.execute("step");
console.log(`Left the loop. The variables were ${executor.state}: step is ${text}.`);

try {
  await executor.execute(COUNT, { timeoutMs: 2000 });
} catch (error) {
  if (!(error instanceof ExecutionTimeoutError)) throw error;
  console.log(`${error.message}. It began with "${error.text?.split("\n")[0]}".`);
}

// A signal can come from elsewhere in the program: a closed connection, a button, Ctrl-C.
const stop = new AbortController();
const reason = new Error("The user pressed Stop");
try {
  for await (const event of executor.stream(COUNT, { events: ["chunk"], signal: stop.signal })) {
    if (event.type === "chunk") stop.abort(reason);
  }
} catch (error) {
  if (error !== reason) throw error;
  console.log(`${reason.message}. The variables were ${executor.state}.`);
}
