import { assertEquals, assertMatch } from "@std/assert";
import { FakeTime } from "../../tests/support/fake_time.ts";
import { ApprovalChannel } from "../approval/channel.ts";
import type { ApprovalCall } from "../approval/request.ts";
import { ElicitationChannel } from "../approval/questions.ts";
import { ApprovalPage } from "../approval/page/page.ts";
import { PageDesk } from "../approval/page/desk.ts";
import { sealObject } from "../json/exact.ts";
import { silentLogger } from "../base/log.ts";
import { PageAsker } from "./page_asker.ts";

const change: ApprovalCall = {
  kind: "change",
  serverName: "ipybox",
  toolName: "register_mcp_server",
  arguments: sealObject({}),
};
const never = new AbortController().signal;
const NOBODY =
  /^approval_unavailable: .*no approval page is open.*open http:\/\/127\.0\.0\.1:1234\/page\/ with the newest code/;

/** A page that nobody has opened, its asker, and the asker's log. */
class Asking implements Disposable {
  readonly time = new FakeTime();
  readonly channel = new ApprovalChannel();
  readonly elicitations = new ElicitationChannel();
  readonly desk = new PageDesk({
    channel: this.channel,
    elicitations: this.elicitations,
    graceMs: 1000,
  });
  readonly links: string[] = [];
  readonly asker = new PageAsker({
    page: new ApprovalPage(this.desk, () => new URL("http://127.0.0.1:1234")),
    log: { ...silentLogger, info: (link) => void this.links.push(link) },
  });

  /** Asks, and returns the outcome: `undefined` for an approval. */
  async ask(): Promise<string | undefined> {
    const response = await this.asker.confirm(change, never);
    return response.accepted ? undefined : `${response.type}: ${response.reason}`;
  }

  [Symbol.dispose](): void {
    this.desk[Symbol.dispose]();
    this.time[Symbol.dispose]();
  }
}

Deno.test("PageAsker refuses at once where nobody has a link, and gives one", async () => {
  using asking = new Asking();
  assertMatch(await asking.ask() ?? "", NOBODY);
  assertEquals(asking.links.length, 1);
});

Deno.test("PageAsker waits some seconds, once, for a person who was given a link", async () => {
  using asking = new Asking();
  asking.asker.invite();
  const first = [asking.ask(), asking.ask()];
  assertEquals(asking.channel.pending, 2);
  asking.time.advance(14_999);
  assertEquals(asking.channel.pending, 2);
  asking.time.advance(1);
  for (const why of await Promise.all(first)) assertMatch(why ?? "", NOBODY);
  assertMatch(await asking.ask() ?? "", NOBODY); // without any waiting
  assertEquals(asking.links.length, 1);

  asking.time.advance(110_000);
  assertMatch(await asking.ask() ?? "", NOBODY);
  assertEquals(asking.links.length, 2, "the link before is about to be void");
});

Deno.test("PageAsker waits for a decision as long as a page is open", async () => {
  using asking = new Asking();
  asking.asker.invite();
  const asked = asking.ask();
  asking.time.advance(10_000);
  const page = asking.desk.enter();
  await Promise.resolve();
  asking.time.advance(24 * 3600_000);
  const [{ id }] = JSON.parse(asking.desk.board.snapshot()).pending;
  await asking.desk.board.decide(id, "true");
  assertEquals(await asked, undefined);

  const left = asking.ask();
  page[Symbol.dispose]();
  asking.time.advance(999);
  assertEquals(asking.channel.pending, 1, "the page may be loaded again");
  asking.time.advance(1);
  assertMatch(await left ?? "", NOBODY);
  assertEquals(asking.links.length, 2);
});

Deno.test("PageAsker gives a denial's reason, and no word more", async () => {
  using asking = new Asking();
  using _page = asking.desk.enter();
  const asked = asking.ask();
  const [{ id }] = JSON.parse(asking.desk.board.snapshot()).pending;
  await asking.desk.board.decide(id, '{"approved":false,"reason":"not that one"}');
  assertEquals(await asked, "approval_rejected: not that one");
  assertEquals(asking.links, []);
});

Deno.test("PageAsker writes the code to the log alone", async () => {
  using asking = new Asking();
  const first = await asking.ask();
  const second = asking.ask();
  asking.time.advance(15_000);
  const answers = `${first}\n${await second}`;
  const code = /code=(\S+)/.exec(asking.links.join("\n"))?.[1] ?? "";
  assertEquals(asking.desk.redeem(code) === undefined, false);
  assertEquals(answers.includes(code), false);
  assertEquals(/[?&]code=/.test(answers), false);
});
