import { assertEquals } from "@std/assert";
import { FakeTime } from "../../tests/support/fake_time.ts";
import { parseElicitation } from "../mcp/questions.ts";
import { ElicitationChannel } from "./questions.ts";

const FORM = { type: "object", properties: { name: { type: "string" } } };

Deno.test("ElicitationChannel keeps so many unanswered questions of a server, however slowly they come", () => {
  const question = parseElicitation({ message: "?", requestedSchema: FORM });
  if (typeof question === "string") throw new Error(question);
  using time = new FakeTime();
  const channel = new ElicitationChannel();
  using _answerer = channel.attach(() => new Promise(() => {}));
  const { signal } = new AbortController();
  for (let asked = 0; asked < 30; asked++) {
    channel.ask({ serverName: "slow" }, question, signal);
    time.advance(60_000);
  }
  assertEquals(channel.pending, 10);
  channel.ask({ serverName: "other" }, question, signal);
  assertEquals(channel.pending, 11);
});
