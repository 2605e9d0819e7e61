/** Results of tools that do not declare them: what calls show of them, and what code gets of that. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { silentLogger } from "../../src/base/log.ts";
import { ToolRunner } from "../../src/calls/runner.ts";
import { TestExecutor } from "../support/executor.ts";
import { rawServer } from "../support/mcp.ts";
import { runPyright, runPython } from "../support/run_python.ts";
import { stepsOf } from "../support/steps.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { stateOf } from "../support/workspace_state.ts";

/** What a workspace has learnt. */
interface Learnt {
  readonly tool: string;
  readonly hash: string;
  readonly calls: number;
  readonly shape: { readonly fields?: Readonly<Record<string, { readonly seen: number }>> };
}

async function learntIn(workspace: string): Promise<Learnt[]> {
  return JSON.parse(await Deno.readTextFile(`${await stateOf(workspace)}/shapes.json`)).tools;
}

async function startRunner(workspace: string): Promise<ToolRunner> {
  const servers = { raw: rawServer() };
  return await ToolRunner.start({ workspace, servers, approval: "allow", log: silentLogger });
}

/** The arguments of the server's tool `result`, for a text or for structured content. */
const textResult = (text: string) => ({
  json: JSON.stringify({ content: [{ type: "text", text }] }),
});
const structured = (json: unknown) => ({
  json: JSON.stringify({ content: [], structuredContent: json }),
});

Deno.test("results are learnt where they are JSON, and their tool does not declare them", async () => {
  await using folder = await TempFolder.create();
  const { path } = folder;
  {
    await using runner = await startRunner(path);
    const secret = "s3cr3t-value";
    await runner.run("raw", "result", textResult(JSON.stringify({ id: 1, token: secret })));
    await runner.run("raw", "result", structured({ id: 2, [`${secret}@x`]: [secret] }));
    await runner.run("raw", "result", textResult("[not JSON"));
    await runner.run("raw", "result", textResult("17"));
    await runner.run("raw", "result", textResult(`{"big": "${"x".repeat(600_000)}"}`));
    await runner.run("raw", "result", {
      json: '{"content":[{"type":"text","text":"{}"}],"isError":true}',
    });
    await runner.run("raw", "structured", { json: '{"declared": 1}' });
    await runner.run("raw", "count");
  }
  const [result, ...others] = await learntIn(path);
  assertEquals(others, []);
  assertEquals([result?.tool, result?.calls], ["result", 2]);
  const file = `${await stateOf(path)}/shapes.json`;
  assert(!(await Deno.readTextFile(file)).includes("s3cr3t"));
  assertEquals((await Deno.stat(file)).mode! & 0o777, 0o600);
});

Deno.test("of a tool that is defined in another way nothing is known", async () => {
  await using folder = await TempFolder.create();
  const { path } = folder;
  {
    await using runner = await startRunner(path);
    await runner.run("raw", "result", structured({ before: 1 }));
    const tool = { name: "result", description: "Another one.", inputSchema: { type: "object" } };
    await runner.run("raw", "define", { tool });
    await runner.run("raw", "result", structured({ after: 1 }));
  }
  const [result] = await learntIn(path);
  assertEquals([result?.calls, Object.keys(result?.shape.fields ?? {})], [1, ["after"]]);
});

Deno.test("two processes lose nothing of what they learn", async () => {
  await using folder = await TempFolder.create();
  const { path } = folder;
  const script = new URL("../fixtures/learn_results.ts", import.meta.url).pathname;
  const config = new URL("../../deno.json", import.meta.url).pathname;
  const ends = await Promise.all(["one", "other"].map((field) =>
    new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", `--config=${config}`, script, path, field, "4"],
      signal: AbortSignal.timeout(120_000), // a server that outlived its pool would keep it running
    }).output()
  ));
  for (const { success, stderr } of ends) assert(success, new TextDecoder().decode(stderr));
  const [result] = await learntIn(path);
  assertEquals(result?.calls, 24);
  const { shared, one, other } = result?.shape.fields ?? {};
  assertEquals([shared?.seen, one?.seen, other?.seen], [24, 12, 12]);
});

Deno.test("a damaged file says nothing and is replaced; one that is a link is left alone", async () => {
  await using folder = await TempFolder.create();
  const { path } = folder;
  const file = `${await stateOf(path)}/shapes.json`;
  for (const damaged of ["{", "[]", '{"tools": [7, {"server": "raw"}]}']) {
    await Deno.writeTextFile(file, damaged);
    await using runner = await startRunner(path);
    await runner.run("raw", "result", structured({ a: 1 }));
    await runner[Symbol.asyncDispose]();
    assertEquals((await learntIn(path)).map(({ tool, calls }) => [tool, calls]), [["result", 1]]);
  }
  await Deno.writeTextFile(`${path}/elsewhere`, "{}");
  await Deno.remove(file);
  await Deno.symlink(`${path}/elsewhere`, file);
  await using runner = await startRunner(path);
  await runner.run("raw", "result", structured({ a: 1 }));
  await runner[Symbol.asyncDispose]();
  assertEquals(await Deno.readTextFile(`${path}/elsewhere`), "{}");
});

const CALL = `
import json
from mcptools.raw import result
def answer(**fields):
    return {"json": json.dumps({"content": [{"type": "text", "text": json.dumps(fields)}]})}
`;

Deno.test("the sessions after a call have run_json(), with what the call has shown", async (t) => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  const step = stepsOf(t);
  const module = `${workspace}/mcptools/raw/result.py`;

  await step("the session of the call keeps what it has imported", async () => {
    await using test = await TestExecutor.start({ workspace });
    const { executor } = test;
    await executor.registerServer("raw", rawServer());
    const before = await Deno.readTextFile(module);
    const code =
      'for n in range(10): result.run(**answer(id=n, name="x", **({"tag": "y"} if n else {})))';
    await executor.execute(CALL + code);
    const { text } = await executor.execute('hasattr(result, "run_json")');
    assertEquals(text, "False");
    assertEquals(await Deno.readTextFile(module), before);

    await executor.reset();
    assertStringIncludes(await Deno.readTextFile(module), "Observed in 10 calls: run_json() ->");
    const again = await executor.execute(`${CALL}result.run_json(**answer(id=7, name="y"))`);
    assertEquals(again.text, "{'id': 7, 'name': 'y'}");
  });

  await step("type checkers know what is there, and what may not be", async () => {
    const root = `${workspace}/mcptools`;
    await Deno.writeTextFile(
      `${root}/caller.py`,
      `from raw import result

def names() -> list[str]:
    found = result.run_json()
    return [found["name"], *([found["tag"]] if "tag" in found else [])]

async def numbers() -> int:
    return (await result.run_json_async())["id"]
`,
    );
    await Deno.writeTextFile(
      `${root}/wrong.py`,
      'from raw import result\n\nresult.run_json()["nothing"]\nresult.run_json(id=1)["id"].upper()\n',
    );
    await Deno.writeTextFile(`${root}/pyrightconfig.json`, '{"typeCheckingMode": "strict"}');
    const files = ["caller.py", "wrong.py"];
    const mypy = ["-m", "mypy", "--strict", "--cache-dir=/dev/null", ...files];
    for (
      const { stdout } of [
        await runPython(mypy, { cwd: root }),
        await runPyright(root, [...files, "raw/result.py"]),
      ]
    ) {
      for (const line of [3, 4]) assertMatch(stdout, new RegExp(`wrong\\.py:${line}\\b.*error`));
      const others = stdout.split("\n").filter((line) => !line.includes("wrong.py"));
      for (const line of others) assert(!/error:|- error/.test(line), stdout);
    }
  });

  await Deno.remove(`${await stateOf(workspace)}/shapes.json`); // as a copy of mcptools/ has none
  await using test = await TestExecutor.start({ workspace });
  const { executor } = test;

  await step("a result may be another one, but must be JSON", async () => {
    const { text } = await executor.execute(`${CALL}
print(result.run_json(**answer(name=1, more=[])))
print(await result.run_json_async(json='{"content": [], "structuredContent": [null]}'))
print(repr(result.run(**answer())))
try:
    result.run_json(json='{"content": [{"type": "text", "text": "no rows"}]}')
except Exception as error:
    print(type(error).__name__, error, error.text)
print(result.JsonResult.__required_keys__ == {"id", "name"}, result.JsonResult.__optional_keys__)
`);
    assertEquals(text?.split("\n"), [
      "{'name': 1, 'more': []}",
      "[None]",
      "'{}'",
      "MismatchedResultError The result is not JSON; run() gives its text. The tool sent: no rows no rows",
      "True frozenset({'tag'})",
    ]);
  });

  await step("an API that is generated again keeps it", async () => {
    const before = await Deno.readTextFile(module);
    assertStringIncludes(before, "run_json");
    const { ino, mtime } = await Deno.stat(module);
    await executor.registerServer("raw", rawServer());
    assertEquals(await Deno.readTextFile(module), before);
    assertEquals(await Deno.stat(module).then((now) => [now.ino, now.mtime]), [ino, mtime]);
  });

  await step("what the folder came with stays until more calls say something else", async () => {
    const shown = () => Deno.readTextFile(`${workspace}/mcptools/raw/observed.json`);
    await executor.reset();
    assert(!(await shown()).includes('"more"'));
    await executor.execute(`${CALL}for _ in range(10): result.run(**answer(second=1))`);
    await executor.reset();
    assertStringIncludes(await shown(), '"second"');
  });

  await step("it is forgotten with its server", async () => {
    assertEquals((await learntIn(workspace)).map(({ tool }) => tool), ["result"]);
    await executor.unregisterServer("raw");
    assertEquals(await learntIn(workspace), []);
  });
});
