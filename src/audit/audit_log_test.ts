import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { ConfigError } from "../errors.ts";
import { parseExact, sealObject } from "../json/exact.ts";
import type { Logger } from "../log.ts";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { type AuditEntry, AuditLog } from "./audit_log.ts";
import { readAuditLog, verifyAuditLog } from "./audit_reader.ts";
import { redactArguments } from "./redact.ts";

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

async function write(workspace: string, from: number, to: number): Promise<void> {
  await using log = new AuditLog({ workspace });
  for (let n = from; n <= to; n++) log.append(entry(n));
}

async function ids(workspace: string): Promise<unknown[]> {
  return (await Array.fromAsync(readAuditLog(workspace))).map(({ id }) => id);
}

function file(workspace: string): string {
  return `${workspace}/.ipybox/audit.jsonl`;
}

/** Changes the lines of the log, as somebody who may write there could. */
async function tamper(workspace: string, change: (lines: string[]) => string[]): Promise<void> {
  const lines = (await Deno.readTextFile(file(workspace))).trimEnd().split("\n");
  await Deno.writeTextFile(file(workspace), change(lines).join("\n") + "\n");
}

Deno.test("AuditLog writes one line for each request, and goes on where another left off", async () => {
  await using folder = await TempFolder.create();
  await write(folder.path, 1, 3);
  await write(folder.path, 4, 5);
  assertEquals(await ids(folder.path), ["id-1", "id-2", "id-3", "id-4", "id-5"]);
  assertEquals(await verifyAuditLog(folder.path), { ok: true, entries: 5, first: 1, sealed: 0 });
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
  assertEquals((await Deno.stat(file(folder.path))).mode ?? 0, 0o100600);
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
  const whole = await Deno.readFile(file(source.path));
  const first = whole.indexOf(10) + 1;
  for (let cut = first + 1; cut < whole.length; cut += 7) {
    await using folder = await TempFolder.create();
    await Deno.mkdir(`${folder.path}/.ipybox`);
    await Deno.writeFile(file(folder.path), whole.subarray(0, cut));
    assertEquals((await verifyAuditLog(folder.path)).bad?.line, 2);
    assertEquals(await ids(folder.path), ["id-1"]);
    await write(folder.path, 3, 3);
    const verdict = await verifyAuditLog(folder.path);
    assertEquals(verdict, { ok: true, entries: 3, first: 1, sealed: 1 });
    assertEquals((await ids(folder.path)).filter((id) => id !== undefined), ["id-1", "id-3"]);
    await tamper(folder.path, (lines) => lines.with(1, `${lines[1]}x`)); // the torn part, too, is kept as it was
    assertEquals((await verifyAuditLog(folder.path)).bad?.line, 2);
  }
});

Deno.test("AuditLog begins new files, keeps some of them, and chains across them", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  for (let n = 1; n <= 30; n++) {
    await using log = new AuditLog({ workspace, maxBytes: 1000, keep: 3 });
    log.append(entry(n));
  }
  const verdict = await verifyAuditLog(workspace);
  assert(verdict.ok && (verdict.first ?? 0) > 1);
  const names = (await Array.fromAsync(Deno.readDir(`${workspace}/.ipybox`))).map(({ name }) =>
    name
  );
  assertEquals(names.filter((name) => /^audit\.\d+\.jsonl$/.test(name)).length, 3);
  assertEquals((await ids(workspace)).at(-1), "id-30");
  const [oldest] = names.filter((name) => /^audit\.\d+\.jsonl$/.test(name)).sort().slice(1);
  await Deno.remove(`${workspace}/.ipybox/${oldest}`);
  assertMatch((await verifyAuditLog(workspace)).bad?.problem ?? "", /does not follow/);
});

Deno.test("AuditLog chains across a file that was put aside just before a process was killed", async () => {
  await using folder = await TempFolder.create();
  await write(folder.path, 1, 2);
  await Deno.rename(file(folder.path), `${folder.path}/.ipybox/audit.1.jsonl`);
  await write(folder.path, 3, 3);
  assertEquals(await verifyAuditLog(folder.path), { ok: true, entries: 3, first: 1, sealed: 0 });
});

Deno.test("Processes that write at the same time keep one chain, also when one is killed", async () => {
  await using folder = await TempFolder.create();
  const script = `
    import { AuditLog } from ${JSON.stringify(new URL("audit_log.ts", import.meta.url).href)};
    const log = new AuditLog({ workspace: ${
    JSON.stringify(folder.path)
  }, maxBytes: 20_000, keep: 1000 });
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
  const config = new URL("../../deno.json", import.meta.url).pathname;
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
  await Deno.mkdir(`${folder.path}/.ipybox`);
  await Deno.writeTextFile(`${folder.path}/victim`, "");
  await Deno.symlink(`${folder.path}/victim`, file(folder.path));
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

/** Arguments, and what is logged of them. */
const REDACTED: readonly (readonly [args: string, logged: string])[] = [
  ['{"a":1.0,"b":[9007199254740993]}', '{"a":1,"b":[9007199254740992]}'],
  ['{"password":"x"}', '{"password":"[redacted]"}'],
  ['{"userPassword":{"a":1}}', '{"userPassword":"[redacted]"}'],
  ['{"api_key":5,"API-KEY":6}', '{"api_key":"[redacted]","API-KEY":"[redacted]"}'],
  ['{"headers":{"Authorization":"Bearer x"}}', '{"headers":{"Authorization":"[redacted]"}}'],
  ['{"x":["Authorization: Bearer abc def"]}', '{"x":["Authorization: Bearer [redacted] def"]}'],
  ['{"access_token":"x","max_tokens":5}', '{"access_token":"[redacted]","max_tokens":5}'],
  ['{"url":"https://me:pw@host/x"}', '{"url":"https://me:[redacted]@host/x"}'],
  ['{"cmd":"curl -d password=x y"}', '{"cmd":"curl -d password=[redacted] y"}'],
  ['{"cmd":"GITHUB_TOKEN=\'a b\' gh"}', '{"cmd":"GITHUB_TOKEN=[redacted] gh"}'],
  ['{"cmd":"echo ghp_0123456789abcdef"}', '{"cmd":"echo ghp_[redacted]"}'],
  ['{"card_number":"1","card":"2"}', '{"card_number":"[redacted]","card":"2"}'],
  ['{"__proto__":{"secret":1}}', '{"__proto__":{"secret":"[redacted]"}}'],
];

for (const [args, logged] of REDACTED) {
  Deno.test(`redactArguments() makes ${logged} of ${args}`, () => {
    const redacted = redactArguments(sealObject(parseExact(args)), ["card_*"]);
    assertEquals(JSON.parse(JSON.stringify(redacted)), JSON.parse(logged));
  });
}

Deno.test("redactArguments() shortens what is long, and says so", () => {
  const long = JSON.stringify(redactArguments({ a: "x".repeat(5000) }));
  assertMatch(long, /^\{"a":"x{1000}… \[5000 characters, SHA-256 [0-9a-f]{64}\]"\}$/);
  const many = redactArguments({ a: Array.from({ length: 30_000 }, () => "xx") });
  assertMatch(JSON.stringify(many), /^\{"omitted":/);
});
