import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { type Consent, makeConsent } from "../consents.ts";
import { ConfigError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { TempFolder } from "../../../tests/support/temp_folder.ts";
import { stateOf } from "../../../tests/support/workspace_state.ts";
import { ConsentFile } from "./consent_file.ts";

function consent(toolName: string): Consent {
  const call = { kind: "tool", serverName: "fs", toolName, arguments: { path: "x" } } as const;
  const fingerprint = [{
    name: "command",
    about: "server",
    value: "npx fs",
    shown: "npx fs",
  }] as const;
  return makeConsent({ call, fingerprint, decision: "allow" }, "arguments");
}

const never = () => false;

async function ids(file: ConsentFile): Promise<string[]> {
  return (await file.list()).map(({ tool }) => tool);
}

function errorLog(): { log: Logger; errors: string[] } {
  const errors: string[] = [];
  const nothing = () => {};
  const log = {
    debug: nothing,
    info: nothing,
    warn: nothing,
    error: (text: string) => void errors.push(text),
  };
  return { log, errors };
}

Deno.test("ConsentFile keeps consents for the owner only, and another process finds them", async () => {
  await using folder = await TempFolder.create();
  const file = await ConsentFile.open(folder.path);
  assertEquals(await ids(file), []);
  await file.add(consent("a"), never);
  await file.add(consent("b"), never);
  await file.add(consent("c"), ({ tool }) => tool === "a");
  assertEquals(await ids(file), ["b", "c"]);
  assertEquals(await ids(await ConsentFile.open(folder.path)), ["b", "c"]);
  const state = await stateOf(folder.path);
  assertEquals((await Deno.stat(`${state}/consents.json`)).mode, 0o100600);
  assertEquals((await Deno.stat(state)).mode, 0o40700);
  assertEquals(await Array.fromAsync(Deno.readDir(folder.path)), []);
});

Deno.test("ConsentFile sees what other processes decide and forget", async () => {
  await using folder = await TempFolder.create();
  const file = await ConsentFile.open(folder.path);
  const other = await ConsentFile.open(folder.path);
  await other.add(consent("others"), never);
  await file.add(consent("mine"), never);
  assertEquals(await ids(file), ["others", "mine"]);
  const forgotten = await other.forget(({ tool }) => tool === "mine");
  assertEquals(forgotten.map(({ tool }) => tool), ["mine"]);
  assertEquals(await ids(file), ["others"]);
});

/** The content of the file, and the message about it. */
const BROKEN: readonly (readonly [text: string, said: RegExp])[] = [
  ["", /consents\.json:1:1: /],
  ['{"version": 1,\n  "consents": [}', /consents\.json:2:16: /],
  ["[]", /Invalid decisions in .*consents\.json: fix or remove/],
  ['{"version": 2, "consents": []}', /version/],
  ['{"version": 1, "consents": [{}]}', /consents\[0\]/],
  ['{"version": 1, "consents": [], "more": 1}', /more/],
  ['{"version": 1, "consents": [], "a\\nline of ipybox": 1}', /"a\\nline of ipybox"/],
];

for (const [text, said] of BROKEN) {
  Deno.test(`ConsentFile takes nothing from a file with ${text || "nothing in it"}, and leaves it`, async () => {
    await using folder = await TempFolder.create();
    const path = `${await stateOf(folder.path)}/consents.json`;
    await Deno.writeTextFile(path, text);
    const { log, errors } = errorLog();
    const file = await ConsentFile.open(folder.path, log);
    assertEquals(await ids(file), []);
    assertMatch(errors[0] ?? "", said);
    await assertRejects(() => file.add(consent("a"), never), ConfigError);
    assertEquals(await Deno.readTextFile(path), text);
  });
}

Deno.test("ConsentFile takes nothing once the file breaks", async () => {
  await using folder = await TempFolder.create();
  const { log, errors } = errorLog();
  const file = await ConsentFile.open(folder.path, log);
  await file.add(consent("a"), never);
  await Deno.writeTextFile(`${await stateOf(folder.path)}/consents.json`, "{");
  assertEquals(await ids(file), []);
  assertEquals(errors.length, 1);
});

Deno.test("ConsentFile keeps the pattern of a consent, and takes no other conditions", async () => {
  await using folder = await TempFolder.create();
  const file = await ConsentFile.open(folder.path);
  const where = { arguments: { "/path": { path: "/data" } } };
  const { arguments: _exact, ...any } = consent("a");
  await file.add({ ...any, where }, never);
  const [kept] = await (await ConsentFile.open(folder.path)).list();
  assertEquals(kept?.where, where);
  for (
    const broken of [{}, { arguments: { "/path": { glob: "*" } } }, { ...where, command: "a" }]
  ) {
    await assertRejects(() => file.add({ ...any, where: broken as Consent["where"] }, never));
  }
});

Deno.test("ConsentFile follows no links", async () => {
  await using folder = await TempFolder.create();
  const outside = `${folder.path}/other`;
  await (await ConsentFile.open(outside)).add(consent("a"), never);
  const path = `${await stateOf(folder.path)}/consents.json`;
  await Deno.symlink(`${await stateOf(outside)}/consents.json`, path);
  const { log, errors } = errorLog();
  const file = await ConsentFile.open(folder.path, log);
  assertEquals(await ids(file), []);
  assertMatch(errors[0] ?? "", /not a plain file/);
});

Deno.test("ConsentFile loses nothing when several processes add at once", async () => {
  await using folder = await TempFolder.create();
  const files = await Promise.all(Array.from({ length: 4 }, () => ConsentFile.open(folder.path)));
  await Promise.all(
    files.flatMap((file, n) =>
      Array.from({ length: 5 }, (_, m) => file.add(consent(`${n}.${m}`), never))
    ),
  );
  const all = await (await ConsentFile.open(folder.path)).list();
  assertEquals(new Set(all.map(({ tool }) => tool)).size, 20);
  const left = (await Array.fromAsync(Deno.readDir(await stateOf(folder.path))))
    .map(({ name }) => name).sort();
  assertEquals(left, ["consents.json", "identity", "lock", "workspace"]);
});

Deno.test("ConsentFile refuses to grow beyond what can be read", async () => {
  await using folder = await TempFolder.create();
  const file = await ConsentFile.open(folder.path);
  for (const reason of ["x".repeat(4 * 2 ** 20), "漢".repeat(2 * 2 ** 20)]) {
    const large = { ...consent("a"), reason };
    await assertRejects(() => file.add(large, never), ConfigError, "Too many decisions");
  }
  await file.add(consent("b"), never);
  assert((await file.list()).length === 1);
});
