/** Results of tools are hostile: what is learnt of them must not become code, grow, or keep data. */
import { assert, assertEquals, assertFalse, assertStringIncludes } from "@std/assert";
import fc from "../support/fast_check.ts";
import { generatePackage } from "../../src/apigen/generate.ts";
import { parseListing, readPackage } from "../../src/apigen/package.ts";
import { signatureOf } from "../../src/apigen/signature.ts";
import { silentLogger } from "../../src/base/log.ts";
import { ToolRunner } from "../../src/calls/runner.ts";
import type { ExactJson } from "../../src/json/exact.ts";
import { type ObservedResults, shapeOf } from "../../src/json/shape.ts";
import { NAMES, PAYLOADS } from "../fixtures/hostile_tools.ts";
import { TestExecutor } from "../support/executor.ts";
import { rawServer } from "../support/mcp.ts";
import { runScript } from "../support/run_python.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { stateOf } from "../support/workspace_state.ts";

/** What `inspect_package.py` reports. */
interface Inspection {
  readonly modules: number;
  readonly problems: readonly unknown[];
  readonly canary: boolean;
}

/** Has Python look at a package whose tools returned values. */
async function inspect(values: readonly ExactJson[]): Promise<Inspection> {
  await using folder = await TempFolder.create();
  const results = new Map(values.map((value, at): [string, ObservedResults] => [
    `tool_${at}`,
    { calls: 1, shape: shapeOf(value) },
  ]));
  const tools = [...results.keys()].map((name) => ({ name, inputSchema: { type: "object" } }));
  await generatePackage("hostile", { tools, results }, { rootDir: folder.path });
  for (
    const { name, module, definition, results } of await readPackage(folder.path, "hostile") ?? []
  ) {
    const text = signatureOf({ server: "hostile", module, tool: name }, definition, results);
    assert(text.length < 2000 && !/(?!\n)[\p{Cc}\p{Cf}]/u.test(text), text);
  }
  return await runScript("inspect_package.py", [folder.path, "hostile"]);
}

/** What generated modules use themselves. */
const USED =
  ("Params Result JsonResult JsonItem CLIENT TypedDict NotRequired Any ToolText InputModel " +
    "tool invoke invoke_json run run_json str int float bool dict list None class import __import__ " +
    "__builtins__ __getattr__ annotations").split(" ");

Deno.test("no name in a result becomes code or breaks a module", async () => {
  const named = (name: string): ExactJson[] => {
    const inner = { [name]: { [name]: [{ [name]: 1 }] }, other: "x" };
    return [inner, [inner, null], { [name]: 1 }];
  };
  const values = [...PAYLOADS, ...NAMES, ...USED].flatMap((name) => {
    const own = JSON.parse(`{${JSON.stringify(name)}: {"a": 1, "b": [{"c": null}]}, "x": 1}`);
    return [...named(name), own];
  });
  const { modules, problems, canary } = await inspect(values);
  assertEquals(problems, []);
  assertFalse(canary);
  assertEquals(modules, values.length + 1);
});

Deno.test("no result that fast-check finds breaks a module", async () => {
  const name = fc.oneof(
    fc.string({ unit: "binary", maxLength: 12 }),
    fc.stringMatching(/^[A-Za-z_]{1,8}$/),
    fc.constantFrom(...USED),
  );
  const { value } = fc.letrec<{ value: ExactJson }>((tie) => ({
    value: fc.oneof(
      { depthSize: "medium" },
      fc.constantFrom<ExactJson>(null, true, 1, 1.5, "x"),
      fc.array(tie("value"), { maxLength: 4 }),
      fc.dictionary(name, tie("value"), { maxKeys: 6 }),
    ),
  }));
  const { modules, problems, canary } = await inspect(fc.sample(value, 300));
  assertEquals(problems, []);
  assertFalse(canary);
  assertEquals(modules, 301);
});

async function startRunner(workspace: string): Promise<ToolRunner> {
  const servers = { raw: rawServer() };
  const options = { approval: "allow", audit: false, log: silentLogger } as const;
  return await ToolRunner.start({ workspace, servers, ...options });
}

const structured = (json: unknown) => ({
  json: JSON.stringify({ content: [], structuredContent: json }),
});
const letters = (number: number) =>
  [...number.toString(26)].map((digit) => String.fromCharCode(97 + parseInt(digit, 26))).join("");

Deno.test("what is learnt does not grow with results, and keeps nothing of them", async () => {
  await using folder = await TempFolder.create();
  const { path } = folder;
  {
    await using runner = await startRunner(path);
    for (let call = 0; call < 120; call++) {
      const wide = Object.fromEntries(
        Array.from(
          { length: 50 },
          (_, at) => [`name_${letters(call * 50 + at)}`, [{ [letters(call)]: 1 }]],
        ),
      );
      await runner.run("raw", "result", structured(call % 2 === 0 ? wide : { wide }));
    }
    const users = ["ada@example.com", "ada-lovelace-1815", "5f2b9c1e-1111-4222-8333-444455556666"];
    for (const user of users) {
      await runner.run("raw", "result", structured({ users: { [user]: { logins: 3 } } }));
    }
  }
  const text = await Deno.readTextFile(`${await stateOf(path)}/shapes.json`);
  assert(text.length < 60_000, `${text.length}`);
  assert(!/ada|5f2b9c1e/.test(text), text);
  assertEquals(JSON.parse(text).tools[0].calls, 123);
});

Deno.test("what is known of many tools is bounded: those called last stay", async () => {
  await using folder = await TempFolder.create();
  const { path } = folder;
  const fields = Object.fromEntries(
    Array.from(
      { length: 90 },
      (_, at) => [`${"x".repeat(60)}${letters(at)}`, { seen: 1, is: ["str"] }],
    ),
  );
  const tools = Array.from({ length: 200 }, (_, at) => ({
    server: "raw",
    tool: `t${at}`,
    hash: "0",
    calls: 1,
    shape: { objects: 1, fields },
  }));
  await Deno.writeTextFile(
    `${await stateOf(path)}/shapes.json`,
    JSON.stringify({ version: 1, tools }),
  );
  {
    await using runner = await startRunner(path);
    await runner.run("raw", "result", structured({ a: 1 }));
  }
  const text = await Deno.readTextFile(`${await stateOf(path)}/shapes.json`);
  assert(text.length < 1.1 * 2 ** 20, `${text.length}`);
  const kept: string[] = JSON.parse(text).tools.map(({ tool }: { tool: string }) => tool);
  assertEquals(kept.slice(-2), ["t199", "result"]);
});

Deno.test("large results are not looked at", async () => {
  await using folder = await TempFolder.create();
  const { path } = folder;
  {
    await using runner = await startRunner(path);
    for (const items of [200_000, 10]) {
      const text = `[${"[],".repeat(items)}[]]`;
      const json = JSON.stringify({ content: [{ type: "text", text }] });
      await runner.run("raw", "result", { json });
    }
  }
  const [result] = JSON.parse(await Deno.readTextFile(`${await stateOf(path)}/shapes.json`)).tools;
  assertEquals(result.calls, 1);
});

Deno.test("what a package came with says no more than a shape can", () => {
  const name = 'x"] = __import__("os").system("id") #';
  const shape = { objects: 1, fields: { [name]: { seen: 1, is: ["str", name] } }, items: name };
  const observed = JSON.stringify({ tool: { calls: name, shape, is: [name] } });
  const { results } = parseListing("", '{"tools": []}', observed);
  assert(!JSON.stringify([...results].map(([, found]) => found.shape)).includes("import"));
  assertEquals(results.get("tool")?.calls, 1);
  assertEquals(parseListing("", '{"tools": []}', "[").results.size, 0);
});

Deno.test("code can neither read nor change what was learnt", async () => {
  await using test = await TestExecutor.start({ servers: { raw: rawServer() } });
  const { executor, workspace } = test;
  await executor.execute(`
from ipybox_runtime import ToolRunner
ToolRunner("raw").run_sync("result", {"json": '{"content": [], "structuredContent": {"a": 1}}'})
`);
  await executor.reset();
  const file = `${await stateOf(workspace)}/shapes.json`;
  const before = await Deno.readTextFile(file);
  assertStringIncludes(before, '"a"');
  const { text } = await executor.execute(`
import os
def refused(use):
    try:
        use()
    except OSError:
        return True
print(all(map(refused, [
    lambda: open("${file}").read(),
    lambda: open("${file}", "w"),
    lambda: os.rename(".ipybox", "other"),
    lambda: open("mcptools/raw/observed.json", "w"),
])))
`);
  assertEquals(text, "True");
  assertEquals(await Deno.readTextFile(file), before);
});
