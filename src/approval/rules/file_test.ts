import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { ConfigError } from "../../base/errors.ts";
import { silentLogger } from "../../base/log.ts";
import { TempFolder } from "../../../tests/support/temp_folder.ts";
import { loadPolicy } from "./file.ts";
import { parsePolicy } from "./parse.ts";
import { policyJsonSchema } from "./schema.ts";

/** Invalid policies, and the locations in the error. */
const WRONG: readonly (readonly [text: string, ...says: string[]])[] = [
  ["", "p.json:1:1"],
  ["{", "p.json:1:2"],
  ['{\n  "rules": [,]\n}', "p.json:2:13"],
  ["[]", "p.json:1:1"],
  ['{"rule": []}', "p.json:1:2: /rule: Unknown name"],
  ['{"rules": {}}', "p.json:1:2: /rules:"],
  ['{"rules": [{}]}', "p.json:1:12: /rules/0/effect:"],
  ['{"rules": [\n  {"effect": "permit"}\n]}', "p.json:2:4: /rules/0/effect:"],
  ['{"rules": [{"effect": "deny", "toool": "x"}]}', "p.json:1:31: /rules/0/toool: Unknown name"],
  ['{"rules": [{"effect": "deny", "tool": ""}]}', "/rules/0/tool:"],
  ['{"rules": [{"effect": "deny", "tool": []}]}', "/rules/0/tool:"],
  ['{"rules": [{"effect": "deny", "kind": "tools"}]}', "/rules/0/kind"],
  [
    '{"rules": [{"effect": "deny", "kind": "tool", "command": "ls"}]}',
    "/rules/0/command: Only rules about",
  ],
  [
    '{"rules": [{"effect": "deny", "arguments": {"path": 1}}]}',
    'p.json:1:45: /rules/0/arguments/path: Must be a JSON pointer, such as "/path"',
  ],
  [
    '{"rules": [{"effect": "deny", "arguments": {"/a": {}}}]}',
    "/rules/0/arguments/~1a: Specify at least one test",
  ],
  [
    '{"rules": [{"effect": "deny", "arguments": {"/a": {"globb": "x"}}}]}',
    "/rules/0/arguments/~1a/globb: Unknown name",
  ],
  [
    '{"rules": [{"effect": "deny", "arguments": {"/a": {"not": {"min": "1"}}}}]}',
    "/rules/0/arguments/~1a/not/min",
  ],
  ['{"rules": [{"effect": "deny", "arguments": {"/a": 9007199254740993}}]}', "Integers above 2^53"],
  [
    '{"rules": [{"effect": "deny", "annotations": {"readonly": true}}]}',
    "/rules/0/annotations/readonly: Unknown name",
  ],
  ['{"rules": [{"effect": "deny", "effect": "allow"}]}', "p.json:1:31: Duplicate name"],
  ['{"trustedServers": "x"}', "/trustedServers"],
  ['{"tests": [{"call": {"tool": "x"}, "expect": "yes"}]}', "/tests/0/expect"],
];

for (const [text, ...says] of WRONG) {
  Deno.test(`parsePolicy() says where ${JSON.stringify(text)} is wrong`, () => {
    const error = assertThrows(() => parsePolicy("p.json", text), ConfigError);
    for (const words of says) assert(error.message.includes(words), error.message);
  });
}

Deno.test("parsePolicy() reports every problem", () => {
  const text = '{"rules": [{"effect": "x"}, {"effect": "allow", "y": 1}]}';
  const error = assertThrows(() => parsePolicy("p.json", text), ConfigError);
  assertEquals(error.message.split("\n").length, 3);
});

Deno.test("loadPolicy() joins the workspace's policy and the user's own", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  assertEquals(await loadPolicy({ workspace }), undefined);
  await Deno.mkdir(`${workspace}/.ipybox`);
  await Deno.writeTextFile(`${workspace}/.ipybox/policy.json`, '{"rules": [{"effect": "deny"}]}');
  const policy = await loadPolicy({ workspace, log: silentLogger });
  const call = { kind: "tool", serverName: "s", toolName: "t", arguments: {} } as const;
  assertEquals(policy?.decide(call), { mode: "deny", reason: ".ipybox/policy.json rule 1" });
});

Deno.test("loadPolicy() follows no link in the workspace", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  await Deno.writeTextFile(`${workspace}/mine.json`, '{"rules": [{"effect": "allow"}]}');
  await Deno.mkdir(`${workspace}/.ipybox`);
  await Deno.symlink(`${workspace}/mine.json`, `${workspace}/.ipybox/policy.json`);
  for (const named of [workspace, `${workspace}/`, `${workspace}/.`, `${workspace}/.ipybox/..`]) {
    await assertRejects(() => loadPolicy({ workspace: named }), ConfigError, "not a plain file");
  }
  await assertRejects(
    () => loadPolicy({ file: `${workspace}/none.json` }),
    ConfigError,
    "No policy file",
  );
  await Deno.symlink(`${workspace}/mine.json`, `${workspace}/link.json`);
  for (const named of [workspace, undefined]) {
    await assertRejects(
      () => loadPolicy({ workspace: named, file: `${workspace}/link.json` }),
      ConfigError,
      `${workspace}/link.json is a symbolic link in the workspace`,
    );
    assert(await loadPolicy({ workspace: named, file: `${workspace}/mine.json` }) !== undefined);
  }
});

Deno.test("The published JSON Schema is that of the code (`ipybox policy schema` writes it)", async () => {
  const published = await Deno.readTextFile(
    new URL("../../../docs/policy.schema.json", import.meta.url),
  );
  assertEquals(JSON.parse(published), JSON.parse(JSON.stringify(policyJsonSchema())));
});

Deno.test("loadPolicy() reads a policy from a pipe, such as <(command)", async () => {
  await using folder = await TempFolder.create();
  const file = `${folder.path}/pipe`;
  await new Deno.Command("mkfifo", { args: [file] }).output();
  const [policy] = await Promise.all([
    loadPolicy({ file }),
    Deno.writeTextFile(file, '{"rules": [{"effect": "deny"}]}'),
  ]);
  assert(policy !== undefined);
  const error = await assertRejects(() => loadPolicy({ file: folder.path }), ConfigError);
  assert(error.message.includes(folder.path), error.message);
});
