/** What the kernel says of code before it runs can be forged: the host only reads it. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { TestExecutor } from "../support/executor.ts";
import { TempFolder } from "../support/temp_folder.ts";

/** Code after which each look at code has a text for its answer. */
function forging(answer: string): string {
  return `
import ipybox_runtime.kernel.check as check
class Answer:
    def __repr__(self):
        return TEXT
TEXT = ${answer}
check.look = lambda code: Answer()
`;
}

const LOOK = `dict(file=None, text="1", dynamic=False, imports=[], bound=[], written=[],
    undefined=[], tools=[], guarded=[], loose=[], calls=None, keywords=[])`;

/** What a look at code can be instead. */
const FORGED = {
  "a line far beyond the code":
    `json.dumps({"file": None, "syntax": {"name": "SyntaxError", "message": "m", "line": 200000000,
        "column": 1, "source": "s"}})`,
  "a column far beyond the line":
    `json.dumps({"file": None, "syntax": {"name": "SyntaxError", "message": "m", "line": 1,
        "column": 2000000000, "source": "s"}})`,
  "more names and ranges than any code has":
    `json.dumps({**${LOOK}, "guarded": [[9, 9, 9, 9]] * 100_000, "undefined":
        [{"name": "n", "range": [1, 1, 1, 2], "near": None, "runs": True, "late": False}] * 100_000})`,
  "a text of many megabytes": `json.dumps({**${LOOK}, "text": "x\\n" * 10_000_000})`,
  "deep nesting": `"[" * 500_000`,
  "no JSON": `"no JSON"`,
};

Deno.test("a forged look stops nothing, and nobody waits long for it", async (t) => {
  await using outside = await TempFolder.create();
  await using test = await TestExecutor.start();
  const { executor } = test;
  await t.step("names that lead to a file outside of the stubs", async () => {
    const victim = `${outside.path}/victim`;
    await Deno.writeTextFile(victim, "the person's");
    const made = await executor.execute(`
import json, os
os.makedirs("evil", exist_ok=True)
tool = {"name": "pay", "inputSchema": {"type": "object"}}
open("evil/schema.json", "w").write(json.dumps({"tools": [tool]}))
for name in ("__init__", "pay", "new"):
    os.symlink(${JSON.stringify(victim)}, f"evil/{name}.pyi")
evil = "../" * 30 + os.getcwd()[1:] + "/evil"
print(evil)
${
      forging(
        `json.dumps({**${LOOK}, "tools": [[evil, "pay"], ["evil", "../../pay"], ["..", ""]]})`,
      )
    }`);
    assertStringIncludes(made.text ?? "", "/evil");
    for (let cell = 0; cell < 3; cell++) {
      const { text } = await executor.execute("print('unharmed')");
      assertEquals(text, "unharmed");
    }
    assertEquals(await Deno.readTextFile(victim), "the person's");
  });
  for (const [what, answer] of Object.entries(FORGED)) {
    await t.step(what, async () => {
      await executor.execute(`import json, os${forging(answer)}`);
      const { text } = await executor.execute("print('unharmed')", { timeoutMs: 60_000 });
      assertEquals(text, "unharmed");
    });
  }
});
