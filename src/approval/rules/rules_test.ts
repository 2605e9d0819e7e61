import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import fc from "../../../tests/support/fast_check.ts";
import type { ApprovalCall } from "../request.ts";
import { ConfigError } from "../../base/errors.ts";
import { parseExact, sealObject } from "../../json/exact.ts";
import { TempFolder } from "../../../tests/support/temp_folder.ts";
import { allowsCommand, readShell, restrictsCommand } from "./commands.ts";
import { matchesGlob } from "./match.ts";
import { parsePolicy } from "./parse.ts";
import { PolicyRules } from "./rules.ts";
import type { PolicyEffect, PolicyKind } from "./schema.ts";
import { cpuMs } from "../../../tests/support/stalls.ts";

type Json = Record<string, unknown>;

function policy(rules: readonly Json[], more: Json = {}, workspace = "/nowhere/ws"): PolicyRules {
  const source = parsePolicy("p.json", JSON.stringify({ rules, ...more }));
  return new PolicyRules([source], { workspace, home: "/nowhere/home" });
}

function tool(args: string, more: Partial<ApprovalCall> = {}): ApprovalCall {
  const sealed = sealObject(parseExact(args));
  return { kind: "tool", serverName: "fs", toolName: "read", arguments: sealed, ...more };
}

function question(args: Json): ApprovalCall {
  const toolName = "elicitation/create";
  return tool(JSON.stringify(args), { kind: "elicitation", toolName });
}

function shell(cmd: string, kind: PolicyKind = "shell"): ApprovalCall {
  return { kind, serverName: "ipybox", toolName: kind, arguments: { cmd } };
}

const GLOBS: readonly (readonly [pattern: string, text: string, matches: boolean])[] = [
  ["", "", true],
  ["", "a", false],
  ["*", "", true],
  ["*", "a/b", true],
  ["a*", "abc", true],
  ["*c", "abc", true],
  ["a*c", "abbc", true],
  ["a*c", "abcd", false],
  ["?", "", false],
  ["?", "a", true],
  ["?", "😀", true],
  ["a?c", "abc", true],
  ["a?c", "ac", false],
  ["**", "x", true],
  ["*a*b*", "xaybz", true],
  ["*a*b*", "xbya", false],
  ["a.c", "abc", false],
  ["[a]", "a", false],
  ["\\*", "*", true],
  ["\\*", "a", false],
  ["\\?\\\\", "?\\", true],
  ["A", "a", false],
  ["a\\", "a\\", true],
  [`${"*a".repeat(50)}b`, "a".repeat(500), false],
];

for (const [pattern, text, expected] of GLOBS) {
  const title = `${JSON.stringify(pattern.slice(0, 20))} on ${JSON.stringify(text.slice(0, 20))}`;
  Deno.test(`matchesGlob() is ${expected} for ${title}`, () => {
    assertEquals(matchesGlob(pattern, text), expected ? "yes" : "no");
  });
}

/** A pattern, a text, and whether a rule with that pattern may allow and restricts it. */
const COMMANDS: readonly (readonly [
  pattern: string,
  text: string,
  allows: string,
  restricts?: string,
])[] = [
  ["ls", "ls", "yes"],
  ["ls", "ls -l", "no"],
  ["ls *", "ls -l", "yes"],
  ["ls *", "ls", "no"],
  ["ls *", "ls a b", "no"],
  ["ls **", "ls", "yes"],
  ["ls **", "ls a b c", "yes"],
  ["** x", "ls a x", "yes"],
  ["** x", "x", "yes"],
  ["git ** --force", "git push a b --force", "yes"],
  ["git ** --force **", "git push --force a", "yes"],
  ["git ** --force", "git push", "no"],
  ["git log", "git push", "no"],
  ["git-*", "git-log", "yes"],
  ["**", "anything at all", "yes"],
  ["rm **", "/bin/rm x", "yes"],
  ["rm **", "/usr/local/bin/rm x", "yes"],
  ["rm **", "./rm x", "maybe"],
  ["rm **", "/home/x/rm x", "maybe"],
  ["cat out/*", "cat out/a", "yes"],
  ["cat out/*", "cat out/../a", "maybe"],
  ["cat out/../a", "cat out/../a", "yes"],
  ["ls **", "ls *.txt", "maybe", "yes"],
  ["ls **", "ls | wc", "maybe", "yes"],
  ["ls", "ls $x", "maybe", "yes"],
  ["rm -rf *", "rm $x", "no", "maybe"],
  ["git push **", "git log $x", "no", "maybe"],
  ["git push **", "a; git push; b", "maybe", "yes"],
  ["rm **", "echo 'rm'", "no"],
  ["rm **", "echo 'rm' > x", "maybe", "yes"],
  ["rm **", "echo $(/opt/bin/rm x)", "maybe", "yes"],
  ["rm **", "r\\\nm x", "maybe", "yes"],
  ["rm **", "\\rm x", "maybe", "yes"],
  ["rm **", "r''m x", "yes"],
  ["**", "sudo ls", "maybe", "yes"],
  ["su* **", "sudo ls", "maybe", "yes"],
  ["sudo **", "sudo ls", "yes"],
  ["ls **", "sudo ls", "no", "yes"],
  ["rm **", "sudo ls", "no"],
  ["rm **", "sudo 'ls'", "no", "maybe"],
  ["rm -r *", "xargs rm", "no", "maybe"],
  ["*/python -m pip **", "/opt/x/bin/python -m pip list", "yes"],
  ["*", "/opt/x/bin/python3.12", "maybe", "yes"],
];

for (const [pattern, line, allows, restricts = allows] of COMMANDS) {
  Deno.test(`A rule for ${pattern} allows ${JSON.stringify(line)}: ${allows}`, () => {
    assertEquals(allowsCommand(pattern, readShell(line)), allows);
  });
  Deno.test(`A rule for ${pattern} restricts ${JSON.stringify(line)}: ${restricts}`, () => {
    assertEquals(restrictsCommand(pattern, readShell(line)), restricts);
  });
}

/**
 * A condition on the argument "a", the arguments, and the effects of an allowing and a denying
 * rule.
 */
const ARGUMENTS: readonly (readonly [
  condition: unknown,
  args: string,
  allow: PolicyEffect,
  deny: PolicyEffect,
])[] = [
  ["x", '{"a":"x"}', "allow", "deny"],
  ["x", '{"a":"y"}', "ask", "ask"],
  ["x", "{}", "ask", "ask"],
  ["1", '{"a":1}', "ask", "ask"],
  [1, '{"a":1}', "allow", "deny"],
  [1, '{"a":1.0}', "allow", "deny"],
  [1, '{"a":1e0}', "allow", "deny"],
  [0, '{"a":-0}', "allow", "deny"],
  [1, '{"a":true}', "ask", "ask"],
  [true, '{"a":true}', "allow", "deny"],
  [null, '{"a":null}', "allow", "deny"],
  [null, "{}", "ask", "ask"],
  [9007199254740991, '{"a":9007199254740993}', "ask", "ask"],
  [{ equals: [1, { b: null }] }, '{"a":[1,{"b":null}]}', "allow", "deny"],
  [{ equals: { b: 1, c: 2 } }, '{"a":{"c":2,"b":1}}', "allow", "deny"],
  [{ equals: { b: 1 } }, '{"a":{"b":1,"c":2}}', "ask", "ask"],
  [{ equals: [] }, '{"a":{}}', "ask", "ask"],
  [{ oneOf: ["x", 2] }, '{"a":2}', "allow", "deny"],
  [{ oneOf: ["x", 2] }, '{"a":3}', "ask", "ask"],
  [{ glob: "https://example.com/*" }, '{"a":"https://example.com/x/y"}', "allow", "deny"],
  [{ glob: "https://example.com/*" }, '{"a":"https://example.com.evil/"}', "ask", "ask"],
  [{ glob: ["a*", "b*"] }, '{"a":"bx"}', "allow", "deny"],
  [{ glob: "*" }, '{"a":1}', "ask", "ask"],
  [{ glob: "*" }, '{"a":["x"]}', "ask", "ask"],
  [{ glob: "docs/*" }, '{"a":"docs/../../etc/passwd"}', "ask", "ask"],
  [{ glob: "docs/*" }, '{"a":"docs/%2e%2e/x"}', "ask", "ask"],
  [{ glob: "docs/*" }, '{"a":"docs/..%2fx"}', "ask", "ask"],
  [{ prefix: "docs/" }, '{"a":"docs/x"}', "allow", "deny"],
  [{ prefix: "docs/" }, '{"a":"doc"}', "ask", "ask"],
  [{ prefix: "docs/" }, '{"a":"docs/../x"}', "ask", "ask"],
  [{ prefix: ["x", "y"] }, '{"a":"yes"}', "allow", "deny"],
  [{ min: 1 }, '{"a":1}', "allow", "deny"],
  [{ min: 1 }, '{"a":0.5}', "ask", "ask"],
  [{ max: 10 }, '{"a":10}', "allow", "deny"],
  [{ max: 10 }, '{"a":10.01}', "ask", "ask"],
  [{ min: 1, max: 10 }, '{"a":5}', "allow", "deny"],
  [{ min: 1, max: 10 }, '{"a":"5"}', "ask", "ask"],
  [{ max: 9007199254740991 }, '{"a":9007199254740993}', "ask", "ask"],
  [{ min: 9007199254740991 }, '{"a":9007199254740993}', "allow", "deny"],
  [{ max: 10 }, '{"a":true}', "ask", "ask"],
  [{ each: { prefix: "x" } }, '{"a":["x1","x2"]}', "allow", "deny"],
  [{ each: { prefix: "x" } }, '{"a":["x1","y2"]}', "ask", "ask"],
  [{ each: "x" }, '{"a":"x"}', "ask", "ask"],
  [{ some: { prefix: "x" } }, '{"a":["y","x2"]}', "allow", "deny"],
  [{ some: "x" }, '{"a":[]}', "ask", "ask"],
  [{ not: "x" }, '{"a":"y"}', "allow", "deny"],
  [{ not: "x" }, '{"a":"x"}', "ask", "ask"],
  [{ not: "x" }, "{}", "ask", "ask"],
  [{ not: { each: { min: 0 } } }, '{"a":[1,-1]}', "allow", "deny"],
  [{ exists: true }, '{"a":null}', "allow", "deny"],
  [{ exists: true }, "{}", "ask", "ask"],
  [{ exists: false }, "{}", "allow", "deny"],
  [{ exists: false }, '{"a":1}', "ask", "ask"],
  [{ path: "." }, '{"a":"/nowhere/ws"}', "allow", "deny"],
  [{ path: "." }, '{"a":"/nowhere/ws/x/y"}', "allow", "deny"],
  [{ path: "." }, '{"a":"x"}', "ask", "ask"],
  [{ path: "." }, '{"a":"/nowhere/wsx"}', "ask", "ask"],
  [{ path: "." }, '{"a":"/etc/passwd"}', "ask", "ask"],
  [{ path: "." }, '{"a":"../x"}', "ask", "ask"],
  [{ path: "." }, '{"a":"x/../y"}', "ask", "ask"],
  [{ path: "." }, '{"a":"~/x"}', "ask", "ask"],
  [{ path: "." }, '{"a":"a\\\\..\\\\b"}', "ask", "ask"],
  [{ path: "." }, '{"a":"a\\u0000b"}', "ask", "ask"],
  [{ path: "." }, '{"a":"file:///nowhere/ws/x"}', "ask", "ask"],
  [{ path: "." }, '{"a":"file:///etc/passwd"}', "ask", "ask"],
  [{ path: "." }, '{"a":"https://nowhere/ws"}', "ask", "ask"],
  [{ path: "." }, '{"a":1}', "ask", "ask"],
  [{ path: ["data", "/etc"] }, '{"a":"/nowhere/ws/data/x"}', "allow", "deny"],
  [{ path: ["data", "/etc"] }, '{"a":"data/x"}', "ask", "ask"],
  [{ path: ["data", "/nowhere/x"] }, '{"a":"/nowhere/x/y"}', "allow", "deny"],
  [{ path: "~/notes" }, '{"a":"/nowhere/home/notes/x"}', "allow", "deny"],
  [{ each: { path: "." } }, '{"a":["x","/etc/passwd"]}', "ask", "ask"],
  [{ not: { path: "." } }, '{"a":"/etc/passwd"}', "allow", "deny"],
  [{ not: { path: "." } }, '{"a":"x"}', "ask", "ask"],
];

for (const [condition, args, allow, deny] of ARGUMENTS) {
  Deno.test(`A condition ${JSON.stringify(condition)} on ${args} allows or denies as it should`, () => {
    const rule = { arguments: { "/a": condition } };
    assertEquals(policy([{ effect: "allow", ...rule }]).decide(tool(args)).mode, allow);
    assertEquals(policy([{ effect: "deny", ...rule }]).decide(tool(args)).mode, deny);
  });
}

/**
 * A condition on the argument "a", a value, and the effect of a denying rule if all else is
 * allowed.
 */
const DENIALS: readonly (readonly [condition: unknown, value: unknown, mode: PolicyEffect])[] = [
  ["prod", ["prod"], "ask"],
  ["prod", { name: "prod" }, "ask"],
  ["prod", "dev", "allow"],
  ["prod", null, "allow"],
  [1, "1", "ask"],
  [true, 1, "ask"],
  [{ oneOf: ["prod"] }, ["prod"], "ask"],
  [{ oneOf: ["prod"] }, "dev", "allow"],
  [{ equals: "prod" }, ["prod"], "ask"],
  [{ equals: ["prod"] }, "prod", "ask"],
  [{ equals: ["prod"] }, [["prod"]], "ask"],
  [{ equals: { b: 1 } }, { b: "1" }, "ask"],
  [{ equals: { b: 1 } }, { b: 2 }, "allow"],
  [{ some: "x" }, [["x"]], "ask"],
  [{ some: "x" }, ["y"], "allow"],
  [{ glob: "/etc/*" }, "/x/../etc/passwd", "ask"],
  [{ glob: "/etc/*" }, "//etc/passwd", "ask"],
  [{ glob: "/etc/*" }, "/./etc/passwd", "ask"],
  [{ glob: "/etc/*" }, "/%2e/etc/passwd", "ask"],
  [{ glob: "/etc/*" }, "\\etc\\passwd", "ask"],
  [{ glob: "/etc/*" }, "/usr//bin", "allow"],
  [{ glob: "/etc/passwd" }, "/etc/passwd/", "ask"],
  [{ prefix: "/etc/" }, "//etc/passwd", "ask"],
  [{ prefix: "docs/" }, "./docs/x", "ask"],
  [{ glob: "https://a.example/*" }, "https://b.example//x", "allow"],
  [{ glob: "https://a.example/x*" }, "https://a.example//x", "ask"],
  [{ glob: "*x" }, "y".repeat(2 ** 20 + 1), "ask"],
  [{ glob: `*${"a".repeat(1000)}b` }, "a".repeat(2 ** 20), "ask"],
  [{ prefix: "x" }, "y".repeat(2 ** 20 + 1), "ask"],
  [{ path: "/etc" }, `/${"y".repeat(2 ** 20)}`, "ask"],
];

for (const [condition, value, mode] of DENIALS) {
  const shown = JSON.stringify([condition, value]).slice(0, 80);
  Deno.test(`A rule that denies by condition and value ${shown} makes it ${mode}`, () => {
    const rules = [{ effect: "allow" }, { effect: "deny", arguments: { "/a": condition } }];
    assertEquals(policy(rules).decide(tool(JSON.stringify({ a: value }))).mode, mode);
  });
}

Deno.test("No text takes a rule long", () => {
  const marks = "\u0316\u0301".repeat(2 ** 19);
  const texts = ["a".repeat(40 * 2 ** 20), "a".repeat(2 ** 20), marks, "\ufdfa".repeat(2 ** 20)];
  const patterns = ["*x", `*${"a".repeat(1000)}b`, "/etc/*"];
  const rules = patterns.map((glob) => ({ effect: "deny", arguments: { "/a": { glob } } }));
  const judge = policy(rules);
  for (const text of [...texts, "/".repeat(2 ** 20), "./".repeat(2 ** 19)]) {
    const call = tool(JSON.stringify({ a: text }));
    const start = cpuMs();
    judge.decide(call);
    const ms = cpuMs() - start;
    assert(ms < 3000, `${JSON.stringify(text.slice(0, 10))} took ${ms} ms`);
  }
});

Deno.test("Doubt is a question even where all else is allowed", () => {
  const rules = [{ effect: "allow" }, { effect: "deny", arguments: { "/a": { path: "." } } }];
  assertEquals(policy(rules).decide(tool('{"a":"x/../y"}')).mode, "ask");
  assertEquals(policy(rules).decide(tool('{"a":"x"}')).mode, "ask");
  assertEquals(policy(rules).decide(tool('{"a":"/nowhere/ws/x"}')).mode, "deny");
  assertEquals(policy(rules).decide(tool('{"a":"/etc"}')).mode, "allow");
});

const LARGE = Object.fromEntries(Array.from({ length: 1000 }, (_, at) => [`name${at}`, at]));
const allow = { effect: "allow" };
const ask = { effect: "ask" };
const deny = { effect: "deny" };
const reading = { annotations: { readOnlyHint: true } };
const trusted = { trustedServers: ["fs"] };
const readOnly: Partial<ApprovalCall> = { annotations: { readOnlyHint: true } };

/** Rules, the call, the verdict, and the rule that gives it. */
const DECISIONS: readonly (readonly [
  name: string,
  rules: PolicyRules,
  call: ApprovalCall,
  mode: PolicyEffect,
  rule?: number,
])[] = [
  ["nothing matched", policy([]), tool("{}"), "ask"],
  ["allow", policy([allow]), tool("{}"), "allow", 1],
  ["deny", policy([deny]), tool("{}"), "deny", 1],
  ["deny beats allow before it", policy([allow, deny]), tool("{}"), "deny", 2],
  ["deny beats allow after it", policy([deny, allow]), tool("{}"), "deny", 1],
  ["ask beats allow", policy([allow, ask]), tool("{}"), "ask", 2],
  ["deny beats ask", policy([ask, deny]), tool("{}"), "deny", 2],
  ["the first of two is named", policy([allow, allow]), tool("{}"), "allow", 1],
  ["kind", policy([{ ...allow, kind: "tool" }]), tool("{}"), "allow", 1],
  ["another kind", policy([{ ...allow, kind: "shell" }]), tool("{}"), "ask"],
  ["kinds", policy([{ ...deny, kind: ["shell", "tool"] }]), tool("{}"), "deny", 1],
  [
    "resource",
    policy([{ ...deny, kind: "resource" }]),
    tool("{}", { kind: "resource" }),
    "deny",
    1,
  ],
  ...([
    ["nothing matched", [], "ask"],
    ["a rule for all kinds", [deny], "deny", 1],
    ["its kind", [{ ...deny, kind: "elicitation" }], "deny", 1],
    ["another kind", [{ ...deny, kind: "tool" }, { ...deny, kind: "shell" }], "ask"],
    ["its server", [{ ...deny, kind: "elicitation", server: "fs" }], "deny", 1],
    ["another server", [{ ...deny, kind: "elicitation", server: "x" }], "ask"],
    ["allow", [{ ...allow, kind: "elicitation" }], "allow", 1],
    ["its mode", [{ ...deny, arguments: { "/mode": "url" } }], "deny", 1],
    ["another mode", [{ ...deny, arguments: { "/mode": "form" } }], "ask"],
    [
      "its address",
      [{ ...deny, arguments: { "/url": { not: { prefix: "https://ok.example/" } } } }],
      "deny",
      1,
    ],
    ["its message", [{ ...deny, arguments: { "/message": { glob: "*password*" } } }], "deny", 1],
    ["a command", [{ ...deny, command: "**" }], "ask"],
    ["a hint", [{ ...allow, ...reading }], "ask"],
  ] as const).map(([name, rules, mode, rule]) => {
    const asked = { mode: "url", url: "https://x.example/", message: "Your password, please" };
    return [`a question: ${name}`, policy(rules), question(asked), mode, rule] as const;
  }),
  ["server", policy([{ ...allow, server: "fs" }]), tool("{}"), "allow", 1],
  ["another server", policy([{ ...allow, server: "fss" }]), tool("{}"), "ask"],
  ["servers", policy([{ ...allow, server: ["x", "f*"] }]), tool("{}"), "allow", 1],
  ["tool", policy([{ ...allow, tool: "read" }]), tool("{}"), "allow", 1],
  ["tool by pattern", policy([{ ...allow, tool: "re*" }]), tool("{}"), "allow", 1],
  ["another tool", policy([{ ...allow, tool: "write" }]), tool("{}"), "ask"],
  [
    "a tool's name with a slash",
    policy([{ ...deny, tool: "*" }]),
    tool("{}", { toolName: "a/b" }),
    "deny",
    1,
  ],
  ["server and tool", policy([{ ...allow, server: "x", tool: "read" }]), tool("{}"), "ask"],
  [
    "a hint of a server without trust",
    policy([{ ...allow, ...reading }]),
    tool("{}", readOnly),
    "ask",
  ],
  [
    "a hint of a trusted server",
    policy([{ ...allow, ...reading }], trusted),
    tool("{}", readOnly),
    "allow",
    1,
  ],
  [
    "a hint and the tool's name, without trust",
    policy([{ ...allow, tool: "read", ...reading }]),
    tool("{}", readOnly),
    "ask",
  ],
  [
    "trust in another server",
    policy([{ ...allow, ...reading }], { trustedServers: ["fs*"] }),
    tool("{}", readOnly),
    "ask",
  ],
  ["trust without a hint", policy([{ ...allow, ...reading }], trusted), tool("{}"), "ask"],
  [
    "trust with another hint",
    policy([{ ...allow, ...reading }], trusted),
    tool("{}", { annotations: { readOnlyHint: false } }),
    "ask",
  ],
  [
    "a hint that denies",
    policy([allow, { ...deny, annotations: { destructiveHint: true } }]),
    tool("{}", { annotations: { destructiveHint: true } }),
    "deny",
    2,
  ],
  [
    "a missing hint that might deny",
    policy([allow, { ...deny, annotations: { destructiveHint: true } }]),
    tool("{}"),
    "ask",
    2,
  ],
  [
    "a hint that speaks against denying",
    policy([allow, { ...deny, annotations: { destructiveHint: true } }]),
    tool("{}", { annotations: { destructiveHint: false } }),
    "allow",
    1,
  ],
  [
    "a pointer into depth",
    policy([{ ...allow, arguments: { "/a/0/b~1c": 1 } }]),
    tool('{"a":[{"b/c":1}]}'),
    "allow",
    1,
  ],
  [
    "a pointer out of a list",
    policy([{ ...allow, arguments: { "/a/1": 1 } }]),
    tool('{"a":[1]}'),
    "ask",
  ],
  [
    "a pointer with a leading zero",
    policy([{ ...allow, arguments: { "/a/00": 1 } }]),
    tool('{"a":[1]}'),
    "ask",
  ],
  ...([
    ["a text", '{"a":"{\\"b\\": 1}"}'],
    ["a list", '{"a":[{"b":1}]}'],
    ["a number", '{"a":1}'],
  ] as const).flatMap(([kind, args]) =>
    ([
      ["an equal value", 1],
      ["any value", { exists: true }],
      ["no value", { exists: false }],
      ["another value", { not: 2 }],
    ] as const).flatMap(([what, condition]): readonly typeof DECISIONS[number][] => [
      [
        `a pointer through ${kind} to ${what}, which might deny`,
        policy([allow, { ...deny, arguments: { "/a/b": condition } }]),
        tool(args),
        "ask",
        2,
      ],
      [
        `a pointer through ${kind} to ${what}, which must not allow`,
        policy([{ ...allow, arguments: { "/a/b": condition } }]),
        tool(args),
        "ask",
      ],
    ])
  ),
  ...([undefined, null] as const).map((a): typeof DECISIONS[number] => [
    `a pointer through ${a}`,
    policy([{ ...allow, arguments: { "/a/b": { exists: false } } }]),
    tool(JSON.stringify({ a })),
    "allow",
    1,
  ]),
  ...([
    ['["x"]', "x"],
    [' {"x": 1}', "x"],
    ['["x"]', { prefix: "x" }],
    ['["x"]', { glob: "x*" }],
    ['["x"]', { oneOf: ["w", "x"] }],
    ["null ", null],
    [`${" ".repeat(1000)}["x"]`, { prefix: "x" }],
  ] as const).flatMap(([text, condition]): readonly typeof DECISIONS[number][] => [
    [
      `the text ${text.trimStart()}, which some servers parse, where ${
        JSON.stringify(condition)
      } is denied`,
      policy([allow, { ...deny, arguments: { "/a": condition } }]),
      tool(JSON.stringify({ a: text })),
      "ask",
      2,
    ],
    [
      `the text ${text.trimStart()}, which some servers parse, where all but ${
        JSON.stringify(condition)
      } is allowed`,
      policy([{ ...allow, arguments: { "/a": { not: condition } } }]),
      tool(JSON.stringify({ a: text })),
      "ask",
    ],
  ]),
  ...[
    "https://x.org/a/.\\t./b",
    "https://x.org/a/..\\n",
    "https://x.org/a/%2\\re./b",
  ].map((url): typeof DECISIONS[number] => [
    `a URL in which parsers find "..": ${url}`,
    policy([{ ...allow, arguments: { "/url": { prefix: "https://x.org/a/" } } }]),
    tool(`{"url":"${url}"}`),
    "ask",
  ]),
  ...[
    "HTTP://X.org/a",
    "http:x.org/a",
    "\\u0001 http:/x.org/a",
    "ht\\ttp://x.org:80/a",
    "http://x.\\u00adorg/a",
    "\\u00a0http://x.org/a",
    "\\u0085\\u3000http://x.org/a",
    "http://x.org/%61?b",
    "http://u:p@x.org/a",
    `HTTP://x.org/a?${"b".repeat(5000)}`,
  ].map((url): typeof DECISIONS[number] => [
    `another way to write a URL that is denied: ${url.slice(0, 30)}`,
    policy([allow, { ...deny, arguments: { "/url": { glob: "http://x.org/a*" } } }]),
    tool(`{"url":"${url}"}`),
    "ask",
    2,
  ]),
  [
    "another URL than is denied",
    policy([allow, { ...deny, arguments: { "/url": { prefix: "http://x.org/a" } } }]),
    tool('{"url":"https://x.org:8080/%62"}'),
    "allow",
    1,
  ],
  ...([
    ["a name in another case", '{"file_path":"x","File_Path":"y"}'],
    ["a name as an alias", '{"file_path":"x","filePath":"y"}'],
    ["only a name in another case", '{"FilePath":"x"}'],
  ] as const).flatMap(([name, args]): readonly typeof DECISIONS[number][] => [
    [
      `${name}, where one value is allowed`,
      policy([{ ...allow, arguments: { "/file_path": "x" } }]),
      tool(args),
      "ask",
    ],
    [
      `${name}, where one value is denied`,
      policy([allow, { ...deny, arguments: { "/file_path": "y" } }]),
      tool(args),
      "ask",
      2,
    ],
    [
      `${name}, where none is allowed`,
      policy([{ ...allow, arguments: { "/file_path": { exists: false } } }]),
      tool(args),
      "ask",
    ],
  ]),
  ...([
    [{ "/path": { exists: true } }, "ask"],
    [{ "/path/0": "x" }, "ask"],
    [{ "/paths": { exists: true } }, "allow"],
    [{ "/other": { exists: false } }, "allow"],
  ] as const).map(([conditions, mode]): typeof DECISIONS[number] => [
    `arguments of which the tool takes one: ${JSON.stringify(conditions)}`,
    policy([{ ...allow, arguments: conditions }]),
    tool('{"path":["x"],"paths":["y"]}', { parameters: new Set(["paths"]) }),
    mode,
    mode === "allow" ? 1 : undefined,
  ]),
  [
    "an argument that is denied and that the tool does not take",
    policy([allow, { ...deny, arguments: { "/path": "x" } }]),
    tool('{"path":"x"}', { parameters: new Set() }),
    "deny",
    2,
  ],
  [
    "a value that some servers inherit",
    policy([{ ...allow, arguments: { "/force": { exists: false } } }]),
    tool('{"__proto__":{"force":true}}'),
    "ask",
  ],
  ...["\u212aey_s", "Key\u017f"].map((name): typeof DECISIONS[number] => [
    `letters that Go takes for those of ASCII: ${name}`,
    policy([allow, { ...deny, arguments: { "/keys": 1 } }]),
    tool(JSON.stringify({ [name]: 1 })),
    "ask",
    2,
  ]),
  ...['{"a":{"b":1,"c":2}}', '{"a":{"B":1}}'].map((args): typeof DECISIONS[number] => [
    `an object that some servers take for the one that is denied: ${args}`,
    policy([allow, { ...deny, arguments: { "/a": { equals: { b: 1 } } } }]),
    tool(args),
    "ask",
    2,
  ]),
  ...['{"a":{"b":2,"c":2}}', '{"a":{"bb":1}}'].map((args): typeof DECISIONS[number] => [
    `an object that no server takes for the one that is denied: ${args}`,
    policy([allow, { ...deny, arguments: { "/a": { equals: { b: 1 } } } }]),
    tool(args),
    "allow",
    1,
  ]),
  [
    "a text that nobody parses",
    policy([allow, { ...deny, arguments: { "/a": { oneOf: [null, "x"] } } }]),
    tool('{"a":"nullable x"}'),
    "allow",
    1,
  ],
  [
    "a pointer to a prototype",
    policy([{ ...deny, arguments: { "/constructor": { exists: true } } }]),
    tool("{}"),
    "ask",
  ],
  [
    "a pointer to a member named __proto__",
    policy([{ ...deny, arguments: { "/__proto__": 1 } }]),
    tool('{"__proto__":1}'),
    "deny",
    1,
  ],
  [
    "the whole arguments",
    policy([{ ...allow, arguments: { "": { equals: { a: 1 } } } }]),
    tool('{"a":1}'),
    "allow",
    1,
  ],
  [
    "a large object",
    policy([{ ...allow, arguments: { "/a": { equals: LARGE } } }]),
    tool(JSON.stringify({ a: LARGE })),
    "allow",
    1,
  ],
  [
    "more than the whole arguments",
    policy([{ ...allow, arguments: { "": { equals: { a: 1 } } } }]),
    tool('{"a":1,"b":2}'),
    "ask",
  ],
  [
    "two conditions, one of which holds",
    policy([{ ...allow, arguments: { "/a": 1, "/b": 1 } }]),
    tool('{"a":1,"b":2}'),
    "ask",
  ],
  [
    "a tool call is no command",
    policy([{ ...allow, command: "**" }]),
    tool('{"cmd":"ls"}'),
    "ask",
  ],
  ["a command", policy([{ ...allow, command: "ls **" }]), shell("ls -l"), "allow", 1],
  [
    "a command in a magic",
    policy([{ ...allow, command: "ls **" }]),
    shell("ls -l\n", "shell_magic"),
    "allow",
    1,
  ],
  [
    "a kind of shell only",
    policy([{ ...allow, kind: "shell", command: "ls" }]),
    shell("ls", "shell_magic"),
    "ask",
  ],
  ["all shell commands", policy([{ ...allow, kind: "shell" }]), shell("a | b; c"), "allow", 1],
  ...([
    ["none", []],
    ["a kind", [{ ...deny, kind: ["tool", "resource"] }]],
    ["annotations", [{ ...deny, annotations: { destructiveHint: true } }]],
    ["a server", [{ ...deny, server: "fs" }]],
    ["tools", [{ ...deny, tool: ["delete_*", "read"] }]],
    ["an argument of tools", [{ ...deny, arguments: { "/path": { path: "/etc" } } }]],
  ] as const).map(([name, rules]): typeof DECISIONS[number] => [
    `a shell command that no rule can be about: ${name}`,
    policy(rules),
    shell("ls '"),
    "allow",
  ]),
  ...([
    ["a pattern for it", [{ ...allow, command: "ls" }], "ask"],
    ["all kinds", [deny], "deny", 1],
    ["all tools", [{ ...deny, tool: "s*" }], "deny", 1],
    ["another kind of shell", [{ ...allow, kind: "shell_magic" }], "ask"],
    ["its text", [{ ...ask, arguments: { "/cmd": "rm" } }], "ask"],
    ["no argument of tools", [{ ...deny, arguments: { "/path": { exists: false } } }], "deny", 1],
  ] as const).map(([name, rules, mode, rule]): typeof DECISIONS[number] => [
    `a shell command where a rule is about ${name}`,
    policy(rules),
    shell("id"),
    mode,
    rule,
  ]),
  [
    "two commands, both of which a rule would allow alone",
    policy([{ ...allow, command: ["ls **", "wc **"] }]),
    shell("ls | wc -l"),
    "ask",
  ],
  [
    "two commands, one allowed",
    policy([{ ...allow, command: "ls **" }]),
    shell("ls; rm x"),
    "ask",
  ],
  [
    "two commands, one denied",
    policy([{ ...allow, kind: "shell" }, { ...deny, command: "rm **" }]),
    shell("ls; rm x"),
    "deny",
    2,
  ],
  [
    "a command hidden in a substitution",
    policy([{ ...allow, command: "echo **" }]),
    shell('echo "$(rm x)"'),
    "ask",
  ],
  [
    "a denied command in a substitution",
    policy([{ ...allow, kind: "shell" }, { ...deny, command: "rm **" }]),
    shell('echo "$(rm x)"'),
    "deny",
    2,
  ],
  [
    "a denied command behind wrappers",
    policy([{ ...allow, kind: "shell" }, { ...deny, command: "rm **" }]),
    shell("env A=1 nohup sh -c 'xargs rm'"),
    "deny",
    2,
  ],
  ["a file that is written", policy([{ ...allow, command: "ls **" }]), shell("ls > x"), "ask"],
  ["/dev/null", policy([{ ...allow, command: "ls **" }]), shell("ls > /dev/null 2>&1"), "ask"],
  [
    "what is behind programs that start others",
    policy([{ ...allow, command: ["ls **", "**"] }]),
    shell("nohup timeout 5 ls"),
    "ask",
  ],
  ["sudo needs a rule", policy([{ ...allow, command: "ls **" }]), shell("sudo ls"), "ask"],
  [
    "sudo with a rule",
    policy([{ ...allow, command: ["ls **", "sudo ls **"] }]),
    shell("sudo ls"),
    "allow",
    1,
  ],
  [
    "a denied wrapper",
    policy([{ ...allow, kind: "shell" }, { ...deny, command: "xargs **" }]),
    shell("ls | xargs wc"),
    "deny",
    2,
  ],
  [
    "variables for a command",
    policy([{ ...allow, command: "ls **" }]),
    shell("LD_PRELOAD=x ls"),
    "ask",
  ],
  ["variables by env", policy([{ ...allow, command: "ls **" }]), shell("env PATH=. ls"), "ask"],
  [
    "variables before a denied command",
    policy([{ ...deny, command: "rm **" }]),
    shell("A=1 rm x"),
    "deny",
    1,
  ],
  ["variables alone", policy([{ ...allow, command: "**" }]), shell("PATH=.; ls"), "ask"],
  [
    "what is no simple command",
    policy([{ ...allow, command: "**" }]),
    shell("case x in *) ls;; esac"),
    "ask",
  ],
  [
    "what is no simple command where shells are denied",
    policy([{ ...deny, kind: "shell" }]),
    shell("ls '"),
    "deny",
    1,
  ],
  [
    "what is no simple command and might be denied",
    policy([{ ...allow, kind: "shell" }, { ...deny, command: "rm **" }]),
    shell("$x"),
    "ask",
    2,
  ],
  ["no command at all", policy([{ ...allow, command: "**" }]), shell("# nothing"), "ask"],
  ["a shell of another kind", policy([{ ...allow, command: "**" }]), {
    ...shell("ls", "shell_magic"),
    arguments: { cmd: "ls", program: "zsh" },
  }, "ask"],
  [
    "bash",
    policy([{ ...allow, command: "ls" }]),
    { ...shell("ls", "shell_magic"), arguments: { cmd: "ls", program: "bash" } },
    "allow",
    1,
  ],
  ["an unusual request", policy([{ ...allow, command: "**" }]), {
    ...shell("ls"),
    arguments: { cmd: "ls", more: 1 },
  }, "ask"],
  [
    "a word that is not known yet",
    policy([{ ...allow, kind: "shell" }, { ...deny, command: "git push **" }]),
    shell("git $x"),
    "ask",
    2,
  ],
];

for (const [name, rules, call, mode, rule] of DECISIONS) {
  Deno.test(`PolicyRules decides on ${name}: ${mode}`, () => {
    const verdict = rules.decide(call);
    assertEquals(verdict.mode, mode);
    if (rule !== undefined) {
      assert(verdict.reason?.startsWith(`p.json rule ${rule}`), verdict.reason);
    }
  });
}

Deno.test("A verdict names file, rule, title and reason", () => {
  const one = parsePolicy("one.json", '{"rules": [{"effect": "allow"}]}');
  const two = parsePolicy(
    "two.json",
    '{"rules": [{"effect": "deny", "name": "N", "reason": "R", "tool": "read"}]}',
  );
  const joined = new PolicyRules([one, two]);
  assertEquals(joined.decide(tool("{}")), { mode: "deny", reason: "two.json rule 1 (N): R" });
  assertEquals(joined.decide(tool("{}", { toolName: "x" })), {
    mode: "allow",
    reason: "one.json rule 1",
  });
});

Deno.test("A path is judged by where it leads", async () => {
  await using folder = await TempFolder.create();
  const workspace = `${folder.path}/ws`;
  await Deno.mkdir(`${workspace}/data`, { recursive: true });
  await Deno.symlink("/etc", `${workspace}/out`);
  await Deno.symlink("/nowhere/at/all", `${workspace}/dangling`);
  await Deno.symlink(`${workspace}/data`, `${workspace}/in`);
  const rules = [{ effect: "allow", arguments: { "/a": { path: "." } } }];
  const inside = policy(rules, {}, workspace);
  const mode = (a: string) => inside.decide(tool(JSON.stringify({ a }))).mode;
  assertEquals(mode(`${workspace}/data/new/file`), "allow");
  assertEquals(mode(`${workspace}/in/file`), "allow");
  assertEquals(mode(`${workspace}/out/passwd`), "ask");
  assertEquals(mode(`${workspace}/out/new`), "ask");
  assertEquals(mode(`${workspace}/dangling`), "ask");
  assertEquals(mode(`${folder.path}/other`), "ask");
  const denied = policy(
    [{ effect: "allow" }, { effect: "deny", arguments: { "/a": { path: "/etc" } } }],
    {},
    workspace,
  );
  const through = JSON.stringify({ a: `${workspace}/out/passwd` });
  assertEquals(denied.decide(tool(through)).mode, "ask");
  assertEquals(denied.decide(tool('{"a":"/etc/passwd"}')).mode, "deny");
});

const effects = fc.constantFrom("allow", "ask", "deny");
const anyRule = fc.record({
  effect: effects,
  kind: fc.constantFrom("tool", "shell"),
  server: fc.constantFrom("fs", "*", "x"),
  tool: fc.constantFrom("read", "r*", "w*"),
  annotations: fc.constantFrom({ readOnlyHint: true }, { destructiveHint: true }),
  arguments: fc.constantFrom<Json>({ "/a": "x" }, { "/a": { path: "." } }, {
    "/a": { not: { glob: "x*" } },
  }),
}, { requiredKeys: ["effect"] });
const commandRule = fc.record({
  effect: effects,
  command: fc.constantFrom("ls **", "rm **", "**", "git *", "xargs **"),
}, { requiredKeys: ["effect"] });
const toolCall = fc.record({
  a: fc.constantFrom("x", "y", "../x", "xx/../y"),
  toolName: fc.constantFrom("read", "write"),
  hints: fc.constantFrom(undefined, {}, { readOnlyHint: true }, { destructiveHint: false }),
}).map(({ a, toolName, hints }) => tool(JSON.stringify({ a }), { toolName, annotations: hints }));
const shellCall = fc.array(
  fc.constantFrom(
    "ls -l",
    "rm x",
    "git $x",
    "A=1 ls",
    "> out",
    "sudo rm x",
    "$x",
    "f() { :; }",
    "xargs ls",
  ),
  { minLength: 1, maxLength: 4 },
).map((lines) => shell(lines.join("; ")));

const STRENGTH = { allow: 0, ask: 1, deny: 2 } as const;

Deno.test("A denying rule never makes a decision weaker", () => {
  const cases = fc.tuple(
    fc.array(fc.oneof(anyRule, commandRule), { maxLength: 6 }),
    fc.oneof(anyRule, commandRule).map((rule) => ({ ...rule, effect: "deny" })),
    fc.nat(6),
    fc.oneof(toolCall, shellCall),
    fc.boolean(),
  );
  fc.assert(
    fc.property(cases, ([rules, denying, at, call, trust]) => {
      const more = trust ? trusted : {};
      const before = policy(rules, more).decide(call).mode;
      const after =
        policy([...rules.slice(0, at), denying, ...rules.slice(at)], more).decide(call).mode;
      assert(STRENGTH[after] >= STRENGTH[before]);
    }),
    { numRuns: 300 },
  );
});

Deno.test("The order of rules changes no decision", () => {
  const rules = fc.array(fc.oneof(anyRule, commandRule), { maxLength: 6 });
  fc.assert(fc.property(rules, fc.oneof(toolCall, shellCall), (list, call) => {
    assertEquals(policy(list).decide(call).mode, policy(list.toReversed()).decide(call).mode);
  }));
});

Deno.test("What is no simple command is never allowed by a rule for commands", () => {
  const rules = fc.array(
    commandRule.filter(({ command }) => command !== undefined),
    { maxLength: 6 },
  );
  const more = fc.constantFrom(
    "ls '",
    "$x",
    "f() { ls; }",
    "ls; )",
    "case x in",
    "${!x}",
    "ls <<E",
  );
  fc.assert(fc.property(rules, more, fc.boolean(), (list, line, first) => {
    const every = { ...allow, command: "**" };
    const all = first ? [every, ...list] : [...list, every];
    assert(policy(all).decide(shell(`ls\n${line}`)).mode !== "allow");
  }));
});

Deno.test("A rule for commands with operators is an error, which says so", () => {
  for (const command of ["> out/*", "ls | wc", "a ; b", "a && b", "cat < *"]) {
    assertThrows(() => policy([{ ...allow, command }]), ConfigError, "one simple command");
  }
});

Deno.test("PolicyRules asks about what would take long to judge, however many rules look at it", () => {
  const items = JSON.stringify({ items: [...Array(30_000).fill("/data/x"), "/etc/shadow"] });
  const deny = { effect: "deny", arguments: { "/items": { some: { glob: ["*.pem", "/etc/*"] } } } };
  const inside = { effect: "allow", arguments: { "/items": { each: { path: "/data" } } } };
  const numbers = `{"items":[${Array(50_000).fill("1.0")},12]}`;
  const many = { effect: "deny", arguments: { "/items": { some: { oneOf: [11, 12, 13, 14] } } } };
  const before = cpuMs();
  assertEquals(policy([many]).decide(tool(numbers)).mode, "ask");
  assertEquals(policy(Array(10).fill(deny)).decide(tool(items)).mode, "ask");
  assertEquals(policy(Array(10).fill(inside)).decide(tool(items)).mode, "ask");
  const deep = JSON.stringify({ items: Array(200).fill("/a".repeat(2000)) });
  const folders = { effect: "deny", arguments: { "/items": { some: { path: ["/etc", "/b"] } } } };
  assertEquals(policy([folders]).decide(tool(deep)).mode, "ask");
  assertEquals(policy([deny]).decide(tool('{"items":["/etc/shadow"]}')).mode, "deny");
  assertEquals(
    policy([{ effect: "deny", command: "rm **" }]).decide(shell("rm ".repeat(1e5))).mode,
    "ask",
  );
  assert(cpuMs() - before < 5000);
});

Deno.test("PolicyRules leaves open commands of more words than are read", () => {
  const modeOf = (words: number) =>
    policy([{ effect: "allow", command: "rm **" }]).decide(shell(`rm${" a".repeat(words - 1)}`))
      .mode;
  assertEquals([modeOf(10_000), modeOf(10_001)], ["allow", "ask"]);
  const denied = policy([{ effect: "deny", command: "rm **" }]);
  const { mode, mayBeDenied } = denied.decide(shell(`true${" a".repeat(10_000)} | rm b`));
  assertEquals([mode, mayBeDenied], ["ask", true]);
});

Deno.test("PolicyRules denies what the user denies, however many looks a repository's rules take", () => {
  const sources = [
    { effect: "deny", arguments: { "/paths": { some: { path: "/missing" } } } },
    { effect: "deny", arguments: { "/path": { path: "/etc" } } },
  ].map((rule, at) => parsePolicy(`${at}.json`, JSON.stringify({ rules: [rule] })));
  const modeOf = (path: string) => {
    const paths = Array.from({ length: 1800 }, (_, n) => `/usr/share/${n}`); // each takes three looks
    return new PolicyRules(sources).decide(tool(JSON.stringify({ paths, path }))).mode;
  };
  assertEquals([modeOf("/etc/hostname"), modeOf("/usr")], ["deny", "ask"]);
});

Deno.test("PolicyRules asks where a rule's folder would take too long to compare", () => {
  const path = `/missing/${"\u0316\u0301".repeat(100_000)}`; // sorted in quadratic time
  const rules = [{ effect: "deny", arguments: { "/path": { path } } }, { effect: "allow" }];
  const { mode, mayBeDenied } = policy(rules).decide(tool('{"path":"/tmp/x"}'));
  assertEquals([mode, mayBeDenied], ["ask", true]);
});

Deno.test("parsePolicy() lists no more problems than somebody reads", () => {
  const text = JSON.stringify({ rules: Array(2000).fill({ effect: "other" }) });
  const { message } = assertThrows(() => parsePolicy("policy.json", text), ConfigError);
  assertEquals(message.split("\n").length, 52);
  assertStringIncludes(message, "and 1950 more");
});
