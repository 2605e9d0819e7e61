import { assertEquals, assertRejects } from "@std/assert";
import { ObservedCall } from "../approval/observed_call.ts";
import { ToolCallError } from "../base/errors.ts";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { LOST } from "./kernel_call_server.ts";
import { CallJournal } from "./journal.ts";
import { JournalFile } from "./journal_file.ts";

const call = {
  id: "a".repeat(32),
  hash: "h",
  kind: "tool",
  serverName: "s",
  toolName: "t",
} as const;

/** Makes the call, which ends when a test says so. */
class Caller {
  readonly gone = new AbortController();
  readonly effect = Promise.withResolvers<string>();
  readonly sent = Promise.withResolvers<void>();
  times = 0;

  ask(journal: CallJournal): Promise<string> {
    const answer = journal.once(call, { signal: this.gone.signal, push() {} }, async (entry) => {
      const asked = { kind: call.kind, serverName: "s", toolName: "t", arguments: {} };
      const observed = new ObservedCall(asked, [], { entry });
      return await observed.run(async () => {
        entry.requireUnsent();
        observed.obey({ decision: "allow", by: "approver" });
        await observed.send();
        this.times++;
        this.sent.resolve();
        entry.signal.addEventListener("abort", () => this.effect.resolve("cancelled"));
        return await this.effect.promise;
      });
    });
    answer.catch(() => {}); // tests look at it later
    return answer;
  }
}

Deno.test("An answer that code has just got is in the file before that is closed", async () => {
  await using folder = await TempFolder.create();
  {
    using journal = await CallJournal.open(folder.path);
    const caller = new Caller();
    const answer = caller.ask(journal);
    caller.effect.resolve("the answer");
    assertEquals(await answer, "the answer");
  }
  using next = await CallJournal.open(folder.path);
  assertEquals(await new Caller().ask(next), "the answer");
});

Deno.test("What was sent may end while the host leaves, and its answer is kept", async () => {
  await using folder = await TempFolder.create();
  const caller = new Caller();
  {
    using journal = await CallJournal.open(folder.path);
    const answer = caller.ask(journal);
    await caller.sent.promise;
    caller.gone.abort(LOST); // as the host cuts the connections first
    const left = journal.leave();
    await assertRejects(() => new Caller().ask(journal), ToolCallError, "being left");
    caller.effect.resolve("the answer");
    await left;
    await assertRejects(() => answer, DOMException, "lost");
  }
  using next = await CallJournal.open(folder.path);
  assertEquals(await new Caller().ask(next), "the answer");
  assertEquals(caller.times, 1);
});

Deno.test("What does not end while the host leaves has an unknown outcome", async () => {
  await using folder = await TempFolder.create();
  const caller = new Caller();
  {
    using journal = await CallJournal.open(folder.path);
    const answer = caller.ask(journal);
    await caller.sent.promise;
    caller.gone.abort(LOST);
    await journal.leave();
    await assertRejects(() => answer, DOMException, "lost");
  }
  using next = await CallJournal.open(folder.path);
  const again = new Caller();
  const { type } = await assertRejects(() => again.ask(next), ToolCallError);
  assertEquals([type, again.times], ["outcome_unknown", 0]);
});

Deno.test("A caller that gives up cancels the call for good, unless another attempt waits", async () => {
  await using folder = await TempFolder.create();
  using journal = await CallJournal.open(folder.path);
  const [first, second] = [new Caller(), new Caller()];
  const [lost, answer] = [first.ask(journal), second.ask(journal)];
  await first.sent.promise;
  first.gone.abort(new DOMException("gives up", "AbortError"));
  first.effect.resolve("the answer");
  assertEquals(await answer, "the answer");
  await assertRejects(() => lost, DOMException, "gives up");
  assertEquals([first.times, second.times], [1, 0]);

  const last = new Caller();
  using other = await CallJournal.open(`${folder.path}/other`);
  const cancelled = last.ask(other);
  await last.sent.promise;
  last.gone.abort(new DOMException("gives up", "AbortError"));
  await assertRejects(() => cancelled, DOMException, "gives up");
  assertEquals(await new Caller().ask(other), "cancelled");
});

Deno.test("Calls that no code asks for are forgotten, but not those that it waits for", async () => {
  await using folder = await TempFolder.create();
  {
    using before = await JournalFile.open(folder.path);
    before.begin(call);
    before.begin({ ...call, id: "b".repeat(32) });
  }
  using old = await CallJournal.open(folder.path);
  using journal = await CallJournal.open(folder.path);
  old.forgetUnasked(); // they are the next host's
  const decided = Promise.withResolvers<string>();
  const attempt = { signal: new AbortController().signal, push() {} };
  const answer = journal.once(call, attempt, () => decided.promise);
  assertEquals((await CallJournal.waitingIn(folder.path)).length, 2);
  journal.forgetUnasked();
  assertEquals(journal.waiting().map(({ id }) => id), [call.id]);
  decided.resolve("the answer");
  assertEquals(await answer, "the answer");
});
