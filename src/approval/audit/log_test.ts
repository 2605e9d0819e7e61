import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { ConfigError } from "../../base/errors.ts";
import { parseExact, sealObject } from "../../json/exact.ts";
import type { Logger } from "../../base/log.ts";
import { inOwnProcess } from "../../../tests/support/own_process.ts";
import { TempFolder } from "../../../tests/support/temp_folder.ts";
import { stateOf } from "../../../tests/support/workspace_state.ts";
import type { AuditEntry } from "./entry.ts";
import { AuditFolder } from "./folder.ts";
import { AuditLog } from "./log.ts";
import { readAuditLog, verifyAuditLog } from "./reader.ts";
import { AuditTail } from "./tail.ts";

function entry(n: number, args = `{"n":${n}}`): AuditEntry {
  return {
    id: `id-${n}`,
    time: new Date(n),
    kind: "tool",
    server: "s",
    tool: "t",
    arguments: sealObject(parseExact(args)),
    decision: "allow",
    by: "policy",
    status: "ok",
    durationMs: 1.23,
  };
}

/** The verdict on a log that is as it was written. */
const GOOD = { ok: true, first: 1, sealed: 0, unfinished: 0 } as const;

async function write(workspace: string, from: number, to: number): Promise<void> {
  await using log = new AuditLog({ workspace });
  for (let n = from; n <= to; n++) log.append(entry(n));
}

async function ids(workspace: string): Promise<unknown[]> {
  return (await Array.fromAsync(readAuditLog(workspace))).map(({ id }) => id);
}

async function file(workspace: string): Promise<string> {
  return `${await stateOf(workspace)}/audit.jsonl`;
}

/** Changes the lines of the log, as somebody who may write there could. */
async function tamper(workspace: string, change: (lines: string[]) => string[]): Promise<void> {
  const lines = (await Deno.readTextFile(await file(workspace))).trimEnd().split("\n");
  await Deno.writeTextFile(await file(workspace), change(lines).join("\n") + "\n");
}

Deno.test("verifyAuditLog() notices lines that are missing at the end, also once others were written", async () => {
  await using folder = await TempFolder.create();
  const { path } = folder;
  await write(path, 1, 3);
  await tamper(path, (lines) => lines.slice(0, 2));
  const problem = "Lines are missing after this: the last line written was number 3";
  assertEquals((await verifyAuditLog(path)).bad, { file: "audit.jsonl", line: 2, problem });

  await write(path, 4, 4);
  assertEquals(await ids(path), ["id-1", "id-2", undefined, "id-4"]);
  assertEquals((await verifyAuditLog(path)).bad, {
    file: "audit.jsonl",
    line: 3,
    problem: "Lines up to number 3 were missing or changed when this was written",
  });

  await Deno.remove(await file(path));
  assertEquals((await verifyAuditLog(path)).bad, {
    file: "audit.jsonl",
    line: 1,
    problem: "Lines are missing: the last line written was number 5",
  });
});

Deno.test("verifyAuditLog() notices a log that was replaced by another one", async () => {
  await using folder = await TempFolder.create();
  await using other = await TempFolder.create();
  await write(folder.path, 1, 3);
  await write(other.path, 11, 15);
  await Deno.copyFile(await file(other.path), await file(folder.path));
  assertEquals((await verifyAuditLog(folder.path)).bad, {
    file: "audit.jsonl",
    line: 3,
    problem: "Another line with this number was written: the log was replaced",
  });
  await write(folder.path, 16, 16);
  const { bad } = await verifyAuditLog(folder.path);
  assertEquals(bad?.line, 6); // the line that says so
});

Deno.test("AuditLog goes on when a workspace is cleaned, or made again at its path", async () => {
  await using folder = await TempFolder.create();
  const workspace = `${folder.path}/workspace`;
  for (const entries of [2, 4]) {
    await Deno.mkdir(workspace);
    await write(workspace, 1, 2);
    assertEquals(await verifyAuditLog(workspace), { ...GOOD, entries });
    await Deno.remove(workspace, { recursive: true });
  }
});

Deno.test("two AuditLogs of one workspace keep one end", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  await using one = new AuditLog({ workspace });
  await using other = new AuditLog({ workspace });
  for (const n of [1, 2, 3, 4]) await (n % 2 === 1 ? one : other).append(entry(n));
  assertEquals(await verifyAuditLog(workspace), { ...GOOD, entries: 4 });
  await tamper(workspace, (lines) => lines.slice(0, 3));
  assertMatch((await verifyAuditLog(workspace)).bad?.problem ?? "", /was number 4/);
});

Deno.test("AuditLog writes where the end cannot be kept, and says so once", async () => {
  await using folder = await TempFolder.create();
  await using state = await TempFolder.create();
  const code = `
    const { AuditLog } = await load("src/approval/audit/log.ts");
    const { makeWorkspaceState } = await load("src/files/workspace_state.ts");
    const { readAuditLog } = await load("src/approval/audit/reader.ts");
    const state = await makeWorkspaceState(${JSON.stringify(folder.path)});
    await Deno.mkdir(state + "/audit.head.json/in-its-place", { recursive: true });
    const said = [];
    const log = { debug() {}, info() {}, warn: (text) => said.push(text), error: (text) => said.push(text) };
    for (const id of ["a", "b"]) {
      await using audit = new AuditLog({ workspace: ${JSON.stringify(folder.path)}, log });
      const entry = { id, time: new Date(), kind: "tool", server: "s", tool: "t", arguments: {} };
      for (let n = 0; n < 2; n++) await audit.append({ ...entry, decision: "deny", by: "policy" });
    }
    const lines = await Array.fromAsync(readAuditLog(${JSON.stringify(folder.path)}));
    return [said, lines.length];`;
  const result = await inOwnProcess(code, { XDG_STATE_HOME: state.path });
  assert(Array.isArray(result));
  const [said, written] = result;
  assert(Array.isArray(said));
  assertEquals(said.length, 2, `${said}`); // once for each log
  for (const text of said) assertMatch(text, /^Cannot keep the end of the audit log, so/);
  assertEquals(written, 4);
});

Deno.test("AuditLog writes one line for each request, and goes on where another left off", async () => {
  await using folder = await TempFolder.create();
  await write(folder.path, 1, 3);
  await write(folder.path, 4, 5);
  assertEquals(await ids(folder.path), ["id-1", "id-2", "id-3", "id-4", "id-5"]);
  assertEquals(await verifyAuditLog(folder.path), { ...GOOD, entries: 5 });
  const [line] = await Array.fromAsync(readAuditLog(folder.path));
  assertEquals({ ...line, hash: "" }, {
    seq: 1,
    time: "1970-01-01T00:00:00.001Z",
    id: "id-1",
    kind: "tool",
    server: "s",
    tool: "t",
    arguments: { n: 1 },
    decision: "allow",
    by: "policy",
    status: "ok",
    durationMs: 1.2,
    prev: "0".repeat(64),
    hash: "",
  });
  assertEquals((await Deno.stat(await file(folder.path))).mode ?? 0, 0o100600);
});

Deno.test("verifyAuditLog() names the first line that was tampered with", async () => {
  const ways: readonly (readonly [line: number, change: (lines: string[]) => string[]])[] = [
    [2, (lines) => lines.with(1, (lines[1] ?? "").replace('"n":2', '"n":9'))],
    [2, (lines) => lines.with(1, (lines[1] ?? "").replace('{"n":2}', '{"n": 2}'))],
    [2, (lines) => lines.toSpliced(1, 1)],
    [1, (lines) => lines.with(0, "")],
    [3, (lines) => [...lines.slice(0, 2), lines[1] ?? "", ...lines.slice(2)]],
    [2, (lines) => [lines[0] ?? "", lines[2] ?? "", lines[1] ?? "", ...lines.slice(3)]],
    [5, (lines) => [...lines, "{}"]],
    [3, (lines) => lines.with(2, "garbage")],
    [4, (lines) => lines.with(3, (lines[3] ?? "").slice(0, -5))],
  ];
  for (const [line, change] of ways) {
    await using folder = await TempFolder.create();
    await write(folder.path, 1, 4);
    await tamper(folder.path, change);
    assertEquals((await verifyAuditLog(folder.path)).bad?.line, line, String(change));
    await write(folder.path, 5, 6); // going on does not cover it up
    assertEquals((await verifyAuditLog(folder.path)).bad?.line, line, String(change));
  }
});

Deno.test("AuditLog seals off a torn line wherever it was cut, and never takes it for an entry", async () => {
  await using source = await TempFolder.create();
  await write(source.path, 1, 2);
  const whole = await Deno.readFile(await file(source.path));
  const first = whole.indexOf(10) + 1;
  for (let cut = first + 1; cut < whole.length; cut += 7) {
    await using folder = await TempFolder.create();
    await Deno.writeFile(await file(folder.path), whole.subarray(0, cut));
    assertEquals((await verifyAuditLog(folder.path)).bad?.line, 2);
    assertEquals(await ids(folder.path), ["id-1"]);
    await write(folder.path, 3, 3);
    const verdict = await verifyAuditLog(folder.path);
    assertEquals(verdict, { ...GOOD, entries: 3, sealed: 1 });
    assertEquals((await ids(folder.path)).filter((id) => id !== undefined), ["id-1", "id-3"]);
    await tamper(folder.path, (lines) => lines.with(1, `${lines[1]}x`)); // the torn part, too, is kept as it was
    assertEquals((await verifyAuditLog(folder.path)).bad?.line, 2);
  }
});

Deno.test("AuditLog begins new files, keeps some of them, and chains across them", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  for (let n = 1; n <= 30; n++) {
    await using log = new AuditLog({ workspace, maxBytes: 1000, maxTotalBytes: 3000 });
    log.append(entry(n));
  }
  const verdict = await verifyAuditLog(workspace);
  assert(verdict.ok && (verdict.first ?? 0) > 1);
  const names = (await Array.fromAsync(Deno.readDir(await stateOf(workspace)))).map(({ name }) =>
    name
  );
  // Three within the limit, and the one that the last log filled up itself.
  assertEquals(names.filter((name) => /^audit\.\d+\.jsonl$/.test(name)).length, 4);
  assertEquals((await ids(workspace)).at(-1), "id-30");
  const [, oldest] = names.filter((name) => /^audit\.\d+\.jsonl$/.test(name)).sort();
  await Deno.remove(`${await stateOf(workspace)}/${oldest}`);
  assertMatch(
    (await verifyAuditLog(workspace)).bad?.problem ?? "",
    /does not continue|out of order/,
  );
});

Deno.test("AuditLog chains across a file that was put aside just before a process was killed", async () => {
  await using folder = await TempFolder.create();
  await write(folder.path, 1, 2);
  await Deno.rename(await file(folder.path), `${await stateOf(folder.path)}/audit.1.jsonl`);
  await write(folder.path, 3, 3);
  assertEquals(await verifyAuditLog(folder.path), { ...GOOD, entries: 3 });
});

Deno.test("Processes that write at the same time keep one chain, also when one is killed", async () => {
  await using folder = await TempFolder.create();
  const script = `
    import { AuditLog } from ${JSON.stringify(new URL("log.ts", import.meta.url).href)};
    const log = new AuditLog({ workspace: ${JSON.stringify(folder.path)}, maxBytes: 20_000 });
    const rest = { kind: "tool", server: "s", tool: "t", arguments: {}, status: "ok", durationMs: 1 };
    for (let n = 0; n < 150; n++) {
      log.append({ id: String(n), time: new Date(), ...rest });
      if (n % 3 === 0) await log.flush();
      if (n === 20) console.log("going");
    }
    await log.flush();
    if (Deno.args[0] === "endless") for (;;) {
      log.append({ id: "endless", time: new Date(), ...rest });
      await log.flush();
    }
  `;
  const path = `${folder.path}/writer.ts`;
  await Deno.writeTextFile(path, script);
  const config = new URL("../../../deno.json", import.meta.url).pathname;
  const spawn = (...args: string[]) =>
    new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", "--config", config, path, ...args],
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
  const endless = spawn("endless");
  const others = [spawn(), spawn(), spawn()];
  for (const other of others) assert((await other.output()).success);
  endless.kill("SIGKILL");
  await endless.output();
  await write(folder.path, 1, 1);
  const verdict = await verifyAuditLog(folder.path);
  assertEquals(verdict.bad, undefined);
  assert(verdict.entries >= 451);
});

Deno.test("AuditLog follows no link, and says so once", async () => {
  await using folder = await TempFolder.create();
  await Deno.writeTextFile(`${folder.path}/victim`, "");
  await Deno.symlink(`${folder.path}/victim`, await file(folder.path));
  const errors: string[] = [];
  const log: Logger = {
    debug() {},
    info() {},
    warn() {},
    error: (message) => errors.push(message),
  };
  await using audit = new AuditLog({ workspace: folder.path, log });
  for (let n = 0; n < 3; n++) {
    audit.append(entry(n));
    await audit.flush();
  }
  assertEquals(errors.length, 1);
  assertMatch(errors[0] ?? "", /not a plain file/);
  assertEquals(await Deno.readTextFile(`${folder.path}/victim`), "");
  await assertRejects(() => verifyAuditLog(folder.path), ConfigError);
});

Deno.test("AuditLog seals off a line that was torn within a character", async () => {
  await using folder = await TempFolder.create();
  await Deno.writeFile(
    await file(folder.path),
    new TextEncoder().encode('{"seq":1,"ü').subarray(0, -1),
  );
  await write(folder.path, 1, 1);
  assertEquals(await verifyAuditLog(folder.path), { ...GOOD, entries: 2, sealed: 1 });
});

Deno.test("verifyAuditLog() and readAuditLog() make nothing and wait for nobody", async () => {
  await using folder = await TempFolder.create();
  const { first: _none, ...empty } = GOOD;
  assertEquals(await verifyAuditLog(folder.path), { ...empty, entries: 0, first: undefined });
  assertEquals(await ids(folder.path), []);
  assertEquals(await Array.fromAsync(Deno.readDir(folder.path)), []);

  await write(folder.path, 1, 1);
  const before = await Deno.stat(await file(folder.path));
  await verifyAuditLog(folder.path);
  assertEquals((await Deno.stat(await file(folder.path))).mtime, before.mtime);
  const reading = readAuditLog(folder.path);
  await reading.next(); // a reader that stays keeps nobody from writing
  await write(folder.path, 2, 2);
  await reading.return();
  assertEquals(await ids(folder.path), ["id-1", "id-2"]);
});

Deno.test("verifyAuditLog() counts the calls that have no outcome", async () => {
  await using folder = await TempFolder.create();
  await using log = new AuditLog({ workspace: folder.path });
  for (const n of [1, 2, 3]) {
    const { status: _status, durationMs: _durationMs, ...sent } = entry(n);
    assert(await log.append(sent));
  }
  log.appendOutcome({ id: "id-2", time: new Date(), status: "ok", durationMs: 1 });
  await log.flush();
  assertEquals(await verifyAuditLog(folder.path), { ...GOOD, entries: 4, unfinished: 2 });
});

Deno.test("AuditLog removes old files only for want of room, and a line says so", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  const rotated = async () =>
    (await Array.fromAsync(Deno.readDir(await stateOf(workspace)))).map(({ name }) => name)
      .filter((name) => /^audit\.\d+\.jsonl$/.test(name))
      .sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
  const fill = async (maxTotalBytes: number) => {
    await using log = new AuditLog({ workspace, maxBytes: 1000, maxTotalBytes });
    for (let n = 1; n <= 20; n++) await log.append(entry(n));
  };
  await fill(1_000_000);
  const all = await rotated();
  assert(all.length > 5);
  assertEquals((await verifyAuditLog(workspace)).first, 1);

  await fill(4000); // only what was there before goes, and only that counts
  const kept = await rotated();
  const before = kept.filter((name) => all.includes(name));
  assert(before.length < all.length && before.length > 0, `${kept}`);
  assert(kept.length - before.length > 5, `${kept}`);
  const verdict = await verifyAuditLog(workspace);
  assertEquals(verdict.bad, undefined);
  const lines = await Array.fromAsync(readAuditLog(workspace));
  const said = lines.flatMap(({ removed }) => removed ?? []).at(-1);
  assertEquals(said, { files: all.length - before.length, upTo: (verdict.first ?? 0) - 1 });

  await Deno.remove(`${await stateOf(workspace)}/${before[0]}`); // by hand
  assertMatch((await verifyAuditLog(workspace)).bad?.problem ?? "", /no line records/);
});

Deno.test("AuditTail follows the log across the files that it is put aside in", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  using tail = new AuditTail(await AuditFolder.make(workspace));
  const seen: unknown[] = [];
  const read = async () => {
    for await (const { id } of tail.read()) if (id !== undefined) seen.push(id);
  };
  await read(); // there is nothing yet, and nothing is made
  assertEquals(await Array.fromAsync(Deno.readDir(workspace)), []);
  await using log = new AuditLog({ workspace, maxBytes: 1000 });
  for (let n = 1; n <= 40; n++) {
    await log.append(entry(n));
    if (n % 7 === 0) await read(); // sometimes more than one file behind
  }
  await read();
  assertEquals(seen, Array.from({ length: 40 }, (_, n) => `id-${n + 1}`));
});

Deno.test("AuditTail misses nothing while files are put aside under its eyes", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  await using log = new AuditLog({ workspace, maxBytes: 1000 });
  let writing = true;
  const written = (async () => {
    for (let n = 1; n <= 300; n++) await log.append(entry(n));
    writing = false;
  })();
  using tail = new AuditTail(await AuditFolder.make(workspace));
  const seen: unknown[] = [];
  for (let last = false; !last;) {
    last = !writing;
    for await (const { id } of tail.read()) seen.push(id);
  }
  await written;
  assertEquals(seen, Array.from({ length: 300 }, (_, n) => `id-${n + 1}`));
});

Deno.test("AuditTail takes no line before its end is there", async () => {
  await using source = await TempFolder.create();
  await write(source.path, 1, 2);
  const bytes = await Deno.readFile(await file(source.path));
  await using folder = await TempFolder.create();
  using tail = new AuditTail(await AuditFolder.make(folder.path));
  let seen = 0;
  for (let at = 0; at < bytes.length; at += 50) {
    await Deno.writeFile(await file(folder.path), bytes.subarray(at, at + 50), { append: true });
    for await (const _fields of tail.read()) seen++;
    assertEquals(seen, bytes.subarray(0, at + 50).filter((byte) => byte === 10).length);
  }
  assertEquals(seen, 2);
});

Deno.test("AuditLog is not led past the numbers that it can count by what a repository brings", async () => {
  for (const number of ["9999999999999999999999", "1e+22", "0", "01"]) {
    await using folder = await TempFolder.create();
    const planted = `${await stateOf(folder.path)}/audit.${number}.jsonl`;
    await Deno.writeTextFile(planted, "");
    await write(folder.path, 1, 1);
    await (await AuditFolder.make(folder.path)).rotate();
    await write(folder.path, 2, 2);
    await (await AuditFolder.make(folder.path)).rotate();
    await write(folder.path, 3, 3);
    assertEquals(await ids(folder.path), ["id-1", "id-2", "id-3"], number);
    const { ok, first } = await verifyAuditLog(folder.path);
    assertEquals([ok, first], [true, 1]);
    assertEquals(await Deno.readTextFile(planted), "");
  }

  await using folder = await TempFolder.create();
  await Deno.writeTextFile(`${await stateOf(folder.path)}/audit.999999999999999.jsonl`, "");
  await write(folder.path, 1, 1);
  await assertRejects(
    async () => await (await AuditFolder.make(folder.path)).rotate(),
    ConfigError,
    "The audit log cannot be continued: move ",
  );
});
