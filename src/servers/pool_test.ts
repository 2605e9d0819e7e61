import { assert } from "@std/assert";
import { McpPool } from "./pool.ts";
import { ServerRegistry } from "./registry.ts";

Deno.test("a pool has ended once the starts ahead that it began have ended, too", async () => {
  const asked = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<undefined>();
  let answered = false;
  const pool = new McpPool({
    registry: await ServerRegistry.open({ servers: { raw: { command: "never-run" } } }),
    starts: {
      approveStart: () => Promise.reject(new Error("no call needs it")),
      unasked: () => {
        asked.resolve();
        return answer.promise;
      },
    },
  });
  pool.startAhead(["raw"]);
  await asked.promise;
  const ended = pool[Symbol.asyncDispose]().then(() => assert(answered));
  setTimeout(() => {
    answered = true;
    answer.resolve(undefined);
  });
  await ended;
});
