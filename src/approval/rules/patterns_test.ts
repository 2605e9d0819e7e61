import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { TempFolder } from "../../../tests/support/temp_folder.ts";
import { parseExact, sealObject } from "../../json/exact.ts";
import { patternText } from "../pattern.ts";
import type { ApprovalCall } from "../request.ts";
import { patternJudge } from "./patterns.ts";

function call(args: unknown, more: Partial<ApprovalCall> = {}): ApprovalCall {
  const sealed = sealObject(parseExact(JSON.stringify(args)));
  return { kind: "tool", serverName: "fs", toolName: "write", arguments: sealed, ...more };
}

function shell(cmd: string): ApprovalCall {
  return call({ cmd }, { kind: "shell", serverName: "ipybox", toolName: "shell" });
}

const OTHERS = "(other arguments: any)";
const FILE = call({ path: "/data/reports/a.csv", text: "x" });
const MOVE = call({ source: "/data/in/a", destination: "/data/out/a" });
const PAGE = call({ url: "https://example.com/a?b=c#d" });

/** A call, the pattern that is proposed for it, calls that this allows, and calls that it does not. */
const PROPOSED: readonly (readonly [
  call: ApprovalCall,
  pattern: string,
  allowed: readonly ApprovalCall[],
  asked: readonly ApprovalCall[],
])[] = [
  [FILE, `any \`path\` below /data/reports ${OTHERS}`, [
    call({ path: "/data/reports/b/c.csv", text: "y", more: 1 }),
  ], [
    call({ path: "/data/reports2/a.csv" }),
    call({ path: "/data/reports/../a.csv" }),
    call({ path: "/data/reports/.env" }),
    call({ path: "data/reports/a.csv" }),
    call({ path: ["/data/reports/a.csv"] }),
    call({ path: "/data/reports/a.csv" }, { parameters: new Set(["file"]) }),
    call({ path: "/data/reports/a.csv", PATH: "/etc/passwd" }),
    call({}),
  ]],
  [MOVE, `any \`source\` below /data/in and any \`destination\` below /data/out ${OTHERS}`, [
    call({ source: "/data/in/b", destination: "/data/out/c" }),
  ], [
    call({ source: "/data/in/b", destination: "/data/in/c" }),
    call({ source: "/data/in/b" }),
  ]],
  [PAGE, `any \`url\` that begins with https://example.com/ ${OTHERS}`, [
    call({ url: "https://example.com/other" }),
  ], [
    call({ url: "https://example.com.evil.org/" }),
    call({ url: "https://example.com@evil.org/" }),
    call({ url: "http://example.com/a" }),
    call({ url: "https://example.com/a/../b" }),
  ]],
  [shell("git log --oneline -5"), "any command like `git log **`", [
    shell("git log"),
    shell("/usr/bin/git log -1 'a b'"),
  ], [
    shell("git push"),
    shell("git log; rm -r ."),
    shell("git log > a"),
    call({ cmd: "git log", program: "perl" }, { kind: "shell" }),
  ]],
  [shell("ls -la /tmp"), "any command like `ls **`", [shell("ls")], [shell("lsof")]],
];

for (const [asked, text, allowed, others] of PROPOSED) {
  Deno.test(`The pattern proposed for ${JSON.stringify(asked.arguments)} is ${text}`, () => {
    const { propose, matches } = patternJudge();
    const where = propose(asked);
    assert(where !== undefined);
    assertEquals(patternText(where), text);
    const remembered = { decision: "allow", where } as const;
    for (const other of [asked, ...allowed]) assert(matches(remembered, other), argsOf(other));
    for (const other of others) assert(!matches(remembered, other), argsOf(other));
  });
}

function argsOf(call: ApprovalCall): string {
  return JSON.stringify(call.arguments);
}

/** Calls for which a pattern would say less than it seems to, or nothing. */
const UNPROPOSED: readonly ApprovalCall[] = [
  call({}),
  call({ n: 1, text: "a/b" }),
  call({ path: "data/a.csv" }),
  call({ path: "/a.csv" }),
  call({ path: "/data/../etc/passwd" }),
  call({ path: "/data/.env" }),
  call({ path: "/data/\u05d0\u05d1/a" }),
  call({ path: "/data/ (y)es, [e]xactly/a" }),
  call({ "a`b": "/data/a" }),
  call({ path: "/data/a", PATH: "/data/a" }),
  call({ path: "/data/a" }, { parameters: new Set(["file"]) }),
  call({ a: "/a/a", b: "/b/b", c: "/c/c", d: "/d/d" }),
  call({ url: "https://user:secret@example.com/" }),
  call({ url: "HTTPS://EXAMPLE.COM/" }),
  call({ path: `/${"a".repeat(300)}/b` }),
  // One place would be bound, and the other would be any.
  call({ source: "/data/in/a", destination: "/a" }),
  call({ source: "/data/in/a", destination: `/data/${"a".repeat(300)}` }),
  call({ source: "/data/in/a", url: `https://example.com/${"a".repeat(300)}` }),
  call({ source: "/data/in/a", targets: ["/backup/a"] }),
  call({ source: "/data/in/a", to: { file: "~/a" } }),
  call({ source: "/data/in/a", destination: "file:///data/in/b" }),
  call({ source: "/data/in/a", destination: "../b" }),
  shell("ls | wc"),
  shell("python -c 1"),
  shell("sudo ls"),
  shell(""),
];

Deno.test("No pattern is proposed that a call does not certainly match", () => {
  const { propose } = patternJudge();
  for (const asked of UNPROPOSED) assertEquals(propose(asked), undefined, argsOf(asked));
});

Deno.test("A folder is proposed as it is, and not where it leads later", async () => {
  await using folder = await TempFolder.create();
  const path = join(await Deno.realPath(folder.path), "reports");
  await Deno.mkdir(path);
  const { propose, matches } = patternJudge();
  const where = propose(call({ path }));
  assertEquals(where, { arguments: { "/path": { path } } });
  const remembered = { decision: "allow", where } as const;
  assert(matches(remembered, call({ path: `${path}/a` })));
  await Deno.remove(path);
  await Deno.symlink("/etc", path);
  assert(!matches(remembered, call({ path: `${path}/passwd` })));
});

Deno.test("A pattern refuses what it certainly matches", () => {
  const { propose, matches } = patternJudge();
  const where = propose(FILE);
  assert(where !== undefined);
  const remembered = { decision: "deny", where } as const;
  assert(matches(remembered, FILE));
  assert(!matches(remembered, call({ path: "/data/reports/../a.csv" })));
});
