import { assertMatch } from "@std/assert";
import { until } from "../../tests/support/wait.ts";
import { silentLogger } from "./log.ts";
import { beginWork, watchStalls } from "./stalls.ts";

Deno.test("watchStalls() names what the event loop stood still for", async () => {
  const messages: string[] = [];
  using _watch = watchStalls({ ...silentLogger, info: (message) => messages.push(message) });
  beginWork("a short message");
  beginWork("a long message");
  for (const start = performance.now(); performance.now() - start < 1000;);
  beginWork("another message");

  await until(() => messages.length > 0);

  assertMatch(messages[0] ?? "", /^Nothing else could be done for \d+ ms: a long message$/);
});
