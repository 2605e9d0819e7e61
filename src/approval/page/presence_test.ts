import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { FakeTime } from "../../../tests/support/fake_time.ts";
import { ApprovalChannel } from "../channel.ts";
import type { ApprovalCall } from "../request.ts";
import { sealObject } from "../../json/exact.ts";
import { ElicitationChannel } from "../questions.ts";
import { PageDesk, type PersonDesks } from "./desk.ts";
import { ApprovalPage } from "./page.ts";

const call: ApprovalCall = {
  kind: "tool",
  serverName: "s",
  toolName: "t",
  arguments: sealObject({}),
};

function desks(channel = new ApprovalChannel()): PersonDesks {
  return { channel, elicitations: new ElicitationChannel() };
}

async function refusal(asked: ReturnType<ApprovalChannel["request"]>): Promise<string> {
  const response = await asked;
  return response.accepted ? "accepted" : `${response.type}: ${response.reason}`;
}

Deno.test("nobody is asked on a page before there is a link", async () => {
  const channel = new ApprovalChannel();
  using desk = new PageDesk(desks(channel));
  assertEquals(desk.presence.state, "away");
  const why = "approval_unavailable: Approval channel not connected";
  assertEquals(await refusal(channel.request(call)), why);
});

Deno.test("calls wait for a page until its link is void", async () => {
  using time = new FakeTime();
  const channel = new ApprovalChannel();
  using desk = new PageDesk(desks(channel));
  desk.invite();
  assertEquals(desk.presence.state, "expected");
  const asked = refusal(channel.request(call));
  time.advance(5 * 60_000 - 1);
  assertEquals(channel.pending, 1);
  time.advance(1);
  assertEquals(await asked, "approval_unavailable: Nobody opened the approval page in time");
  assertEquals(desk.presence.state, "away");
});

Deno.test("calls wait half a minute for a page whose link was opened", async () => {
  using time = new FakeTime();
  const channel = new ApprovalChannel();
  using desk = new PageDesk(desks(channel));
  desk.redeem(desk.invite());
  const asked = refusal(channel.request(call));
  time.advance(29_999);
  assertEquals(desk.presence.state, "expected");
  time.advance(1);
  assertEquals(await asked, "approval_unavailable: Nobody opened the approval page in time");

  desk.redeem(desk.invite());
  desk.enter()[Symbol.dispose](); // the page that was expected has come, and gone
  time.advance(5000);
  assertEquals(desk.presence.state, "away");
});

Deno.test("calls wait while a page is open, and for some seconds after the last one has gone", async () => {
  using time = new FakeTime();
  const channel = new ApprovalChannel();
  using desk = new PageDesk({ ...desks(channel), graceMs: 3000 });
  const code = desk.invite();
  assertEquals(desk.redeem(code) === undefined, false);
  const states: string[] = [];
  using _watch = desk.presence.onChange((state) => states.push(state));
  const [first, second] = [desk.enter(), desk.enter()];
  time.advance(3600_000);
  const asked = refusal(channel.request(call));
  first[Symbol.dispose]();
  first[Symbol.dispose]();
  time.advance(60_000);
  second[Symbol.dispose]();
  time.advance(2999);
  const back = desk.enter(); // it was reloaded
  time.advance(60_000);
  assertEquals(channel.pending, 1);
  back[Symbol.dispose]();
  time.advance(3000);
  assertEquals(await asked, "approval_unavailable: The approval page was closed");
  assertEquals(states, ["open", "expected", "open", "expected", "away"]);
});

Deno.test("a call that was left to a page that nobody opened was not decided by anybody", async () => {
  using time = new FakeTime();
  const channel = new ApprovalChannel();
  using desk = new PageDesk(desks(channel));
  const page = new ApprovalPage(desk, () => new URL("http://127.0.0.1"));
  using _approver = channel.attach((request) => page.decide(request));
  page.url();
  const asked = refusal(channel.request(call));
  time.advance(5 * 60_000);
  const why = "approval_unavailable: Nobody opened the approval page in time";
  assertEquals(await asked, why);
  assertEquals(await refusal(channel.request(call)), why, "nobody is expected any more");
});

Deno.test("a code opens one page, once, and only in time", () => {
  using time = new FakeTime();
  using desk = new PageDesk({ ...desks(), linkMs: 1000 });
  const [early, late] = [desk.invite(), desk.invite()];
  assertMatch(early, /^[0-9A-HJ-KM-NP-TV-Z]{4}(-[0-9A-HJ-KM-NP-TV-Z]{4}){3}$/);
  assertEquals(desk.redeem(early.slice(1)), undefined);
  assertEquals(desk.redeem(""), undefined);
  const session = desk.redeem(` ${early.toLowerCase().replaceAll("-", " ")}`); // it was typed
  assertEquals(desk.redeem(early), undefined);
  time.advance(1001);
  assertEquals(desk.redeem(late), undefined);
  const { id = "", token = "" } = session ?? {};
  assertEquals([desk.hasSession(id), desk.admits(id, token)], [true, true]);
  assertEquals([desk.admits(id, id), desk.admits(token, token)], [false, false]);
});

Deno.test("an approver that is attached is asked instead of the page", async () => {
  const channel = new ApprovalChannel();
  using desk = new PageDesk(desks(channel));
  using _page = desk.enter();
  const approver = channel.attach(() => {});
  const asked = refusal(channel.request(call));
  approver[Symbol.dispose]();
  assertEquals(await asked, "approval_unavailable: Approval channel disconnected");
  const left = refusal(channel.request(call));
  using _second = channel.attach(() => {});
  assertEquals(channel.pending, 1, "what the page was asked is the page's");
  channel.withdrawAll("end");
  assertEquals(await left, "approval_unavailable: end");
});

Deno.test("a board keeps so many decisions and says how many it has dropped", async () => {
  const channel = new ApprovalChannel();
  using desk = new PageDesk(desks(channel));
  using _approver = channel.attach((request) => void request.accept());
  for (let n = 0; n < 110; n++) await channel.request(call);
  const { settled, dropped, pending } = JSON.parse(desk.board.snapshot());
  assertEquals([settled.length, dropped, pending.length], [100, 10, 0]);
});

Deno.test("a change is asked about on pages alone, and allowed as it is", async () => {
  const channel = new ApprovalChannel();
  using desk = new PageDesk(desks(channel));
  using _page = desk.enter();
  using _approver = channel.attach((request) => void request.accept());
  const change: ApprovalCall = { ...call, kind: "change" };
  const asked = refusal(desk.ask(change, { approver: () => {} }));
  const [{ id }] = JSON.parse(desk.board.snapshot()).pending;
  const edited = '{"approved":true,"arguments":{"other":1}}';
  await assertRejects(() => desk.board.decide(id, edited), TypeError, "cannot be edited");
  assertEquals(channel.pending, 1);
  assertEquals(await desk.board.decide(id, "true"), "counted");
  assertEquals(await asked, "accepted");
});
