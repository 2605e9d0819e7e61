import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { ConfigError } from "../base/errors.ts";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { CallJournal } from "./journal.ts";
import { JournalFile, type JournalledCall } from "./journal_file.ts";

const call: JournalledCall = {
  id: "a".repeat(32),
  hash: "h",
  kind: "tool",
  serverName: "s",
  toolName: "t",
};

function idOf(number: number): string {
  return number.toString(16).padStart(32, "0");
}

Deno.test("A journal keeps each step for the next host, readable by its owner only", async () => {
  await using folder = await TempFolder.create();
  const path = `${folder.path}/session`;
  using first = await JournalFile.open(path);
  assertEquals(first.begin(call), undefined);
  assertEquals(first.waiting().map(({ id, toolName }) => [id, toolName]), [[call.id, "t"]]);
  for await (const { name } of Deno.readDir(path)) {
    assertEquals(((await Deno.stat(`${path}/${name}`)).mode ?? 0) & 0o077, 0, name);
  }
  assertEquals(((await Deno.stat(path)).mode ?? 0) & 0o077, 0);
  first.decide(call.id, '{"by":"approver"}', "{}");
  {
    // The first one does not close: it was killed.
    using second = await JournalFile.open(path);
    const { state, decision, edited } = second.begin(call) ?? {};
    assertEquals([state, decision, edited], ["decided", '{"by":"approver"}', "{}"]);
    assertEquals(first.send(call.id), false); // it is the second one's now
    assertEquals(second.send(call.id), true);
    assertEquals(second.send(call.id), false);
    second.end(call.id, "ok", '{"result":1}');
  }
  using third = await JournalFile.open(path);
  const { state, status, answer, edited } = third.begin(call) ?? {};
  assertEquals([state, status, answer, edited], ["done", "ok", '{"result":1}', null]);
  assertEquals(third.decide(call.id, "{}", null), false);
  assertEquals(third.waiting(), []);
});

Deno.test("Old calls are forgotten, but neither those that were sent nor those that wait here", async () => {
  await using folder = await TempFolder.create();
  using file = await JournalFile.open(folder.path);
  file.begin({ ...call, id: idOf(0) });
  file.decide(idOf(0), "{}", null);
  file.send(idOf(0));
  file.begin({ ...call, id: idOf(1) }); // waits here for longer than all others
  for (let number = 2; number < 5000; number++) {
    const id = idOf(number);
    file.begin({ ...call, id });
    file.end(id, "cancelled", "{}");
  }
  assertEquals(file.begin({ ...call, id: idOf(0) })?.state, "sent");
  assertEquals(file.begin({ ...call, id: idOf(1) })?.state, "waiting");
  assertEquals(file.begin({ ...call, id: idOf(4999) })?.answer, "{}");
  assertEquals(file.begin({ ...call, id: idOf(2) }), undefined); // a new call to it
});

Deno.test("Answers beyond the bound are dropped before the calls are", async () => {
  await using folder = await TempFolder.create();
  using file = await JournalFile.open(folder.path);
  for (let number = 0; number < 50; number++) {
    file.begin({ ...call, id: idOf(number) });
    file.end(idOf(number), "ok", "x".repeat(2 ** 20));
  }
  const { state, answer } = file.begin({ ...call, id: idOf(0) }) ?? {};
  assertEquals([state, answer], ["done", null]);
  assertEquals(file.begin({ ...call, id: idOf(49) })?.answer?.length, 2 ** 20);
  const { size } = await Deno.stat(file.path);
  assert(size < 48 * 2 ** 20, `${size} bytes`);
});

Deno.test("Answers are counted in bytes, whatever their script", async () => {
  await using folder = await TempFolder.create();
  using file = await JournalFile.open(folder.path);
  for (const text of ["\u{1F600}".repeat(2 ** 19), "\u6F22".repeat(2 ** 20)]) {
    for (let number = 0; number < 80; number++) {
      const id = crypto.randomUUID();
      file.begin({ ...call, id });
      file.end(id, "ok", text);
    }
  }
  const { size } = await Deno.stat(file.path);
  assert(size < 64 * 2 ** 20, `${size} bytes`);
});

/** Files that may be in the place of a journal. */
const UNUSABLE: Readonly<Record<string, (path: string) => Promise<void> | void>> = {
  "file is not a database": (path) => Deno.writeTextFile(path, "{}".repeat(1000)),
  "it was written by a newer version of ipybox": (path) => sql(path, "PRAGMA user_version = 99"),
  "it is not a call journal": (path) => sql(path, "CREATE TABLE calls (id TEXT)"),
  "it is not a file": (path) => Deno.symlink("/dev/null", path),
};

for (const [problem, make] of Object.entries(UNUSABLE)) {
  Deno.test(`A journal is refused, with its path and what to do: ${problem}`, async () => {
    await using folder = await TempFolder.create();
    const path = `${folder.path}/calls.db`;
    await make(path);
    const { message } = await assertRejects(() => CallJournal.open(folder.path), ConfigError);
    assertStringIncludes(message, `Cannot use the call journal ${path}: `);
    assertStringIncludes(message, problem);
    assertStringIncludes(message, "end the session and start another");
  });
}

Deno.test("A journal that was cut short, or has a trigger, is refused", async () => {
  for (const spoil of [cutShort, plantTrigger]) {
    await using folder = await TempFolder.create();
    {
      using file = await JournalFile.open(folder.path);
      for (let number = 0; number < 500; number++) file.begin({ ...call, id: idOf(number) });
    }
    await spoil(`${folder.path}/calls.db`);
    await assertRejects(() => CallJournal.open(folder.path), ConfigError, "call journal");
  }
});

async function cutShort(path: string): Promise<void> {
  const { size } = await Deno.stat(path);
  await Deno.truncate(path, Math.floor(size / 2));
}

function plantTrigger(path: string): void {
  sql(path, "CREATE TRIGGER t AFTER UPDATE ON calls BEGIN DELETE FROM calls; END");
}

Deno.test("A file that another process has locked fails, and is used again later", async () => {
  await using folder = await TempFolder.create();
  using file = await JournalFile.open(folder.path);
  {
    using other = new DatabaseSync(file.path);
    other.exec("BEGIN IMMEDIATE");
    assertThrows(() => file.begin(call), Error, "locked");
  }
  assertEquals(file.begin(call), undefined);
});

Deno.test("A journal that is full fails, and is used again when there is room", async () => {
  await using folder = await TempFolder.create();
  using file = await JournalFile.open(folder.path);
  file.begin(call);
  const fill = (size: number) =>
    sql(file.path, `UPDATE calls SET answer = printf('%.*c', ${size}, 'x')`);
  fill(128 * 2 ** 20);
  const beginMany = () => {
    for (let number = 0; number < 100; number++) file.begin({ ...call, id: idOf(number) });
  };
  assertThrows(beginMany, Error, "full");
  fill(0);
  beginMany();
});

Deno.test("A journal that cannot be written is refused", async () => {
  // Not even root can write there.
  const folder = Deno.build.os === "linux" ? "/proc/self" : "/dev/null";
  await assertRejects(() => CallJournal.open(folder), ConfigError, "Cannot use the call journal");
});

Deno.test("A clock that was set back makes no call wait from the future", async () => {
  await using folder = await TempFolder.create();
  {
    using file = await JournalFile.open(folder.path);
    file.begin(call);
    sql(file.path, "UPDATE calls SET asked = 99999999999999, changed = 99999999999999");
  }
  using journal = await CallJournal.open(folder.path);
  const [waiting] = journal.waiting();
  assert(waiting !== undefined && waiting.since <= new Date(), `${waiting?.since}`);
  const attempt = { signal: new AbortController().signal, push() {} };
  const askedAt = await journal.once(call, attempt, (entry) => Promise.resolve(`${entry.askedAt}`));
  assert(new Date(askedAt) <= new Date(), askedAt);
});

function sql(path: string, text: string): void {
  using database = new DatabaseSync(path);
  database.exec(text);
}
