import { assert, assertEquals } from "@std/assert";
import { limitedLogger } from "./log.ts";

Deno.test("limitedLogger() cuts a flood short, and says so with the next message that passes", async () => {
  const lines: string[] = [];
  const at = (level: string) => (message: string) => void lines.push(`${level} ${message}`);
  const log = limitedLogger({
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
  });
  for (let i = 0; i < 1000; i++) log.warn(`${i}`);
  const passed = lines.length;
  assert(passed >= 20 && passed < 40, `${passed}`);
  log.debug("detail");
  assertEquals(lines.splice(0).at(-1), "debug detail");
  for (let tries = 0; lines.length === 0 && tries < 200; tries++) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    log.error("late");
  }
  const [note = "", last] = lines;
  assertEquals(last, "error late");
  const leftOut = Number(/^error (\d+) messages before this one were omitted$/.exec(note)?.[1]);
  assert(leftOut >= 1000 - passed && leftOut < 1200, note);
});
