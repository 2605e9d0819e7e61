/** `ipybox tools --learn`, and where what it learns is shown. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { commandsIn } from "../support/command_io.ts";
import { rawServer } from "../support/mcp.ts";
import { McpHost } from "../support/mcp_client.ts";
import { stepsOf } from "../support/steps.ts";
import { TempFolder } from "../support/temp_folder.ts";

Deno.test("ipybox tools --learn calls what only reads and has examples", async (t) => {
  await using workspace = await TempFolder.create();
  const cwd = workspace.path;
  const command = commandsIn(cwd);
  await using folder = await TempFolder.create();
  const step = stepsOf(t);
  const journal = `${folder.path}/journal`;
  const called = async () =>
    (await Deno.readTextFile(journal)).split("\n").filter((line) => line.startsWith("called"));
  const raw = rawServer("examples", journal);
  const registered = ["register", "raw", "--", raw.command, ...raw.args ?? []];
  assertEquals((await command(registered)).code, 0);

  await step("each call needs approval", async () => {
    const { code, stdout, stderr } = await command(["tools", "--learn", "raw"]);
    assertEquals([code, stdout], [1, ""]);
    assertStringIncludes(stderr, "12 of 13 tools do not declare their results; 4 of them are");
    assertStringIncludes(
      stderr,
      "raw.look could not be approved: there is no terminal to ask on (--approve allow allows calls)",
    );
    assertEquals(await called(), []);
  });

  await step("examples are the arguments, and what has none is not called", async () => {
    const { code, stdout, stderr } = await command(
      ["tools", "--learn", "raw", "--approve", "allow"],
    );
    assertEquals(code, 0, stderr);
    assertEquals(await called(), ['called look {"id":7}', 'called look_whole {"id":9}']);
    assertStringIncludes(
      stdout,
      "from mcptools.raw import look\n" +
        "look.run(id: int) -> str\n" +
        "look.run_json(...) -> JsonResult  # observed in 1 call, not declared\n" +
        '  JsonResult: {"found": list[Found]}\n' +
        '  Found: {"id": int}\n',
    );
    assert(!stdout.includes("look_blind"));
  });

  await step("the calls are in the audit log, the shapes in the API", async () => {
    const { stdout: log } = await command(["audit", "--json"]);
    assertMatch(log, /"tool": ?"look_whole"/);
    const { stdout: shown } = await command(["show", "raw.look"]);
    assertStringIncludes(shown, "Observed in 1 call: run_json() -> JsonResult");
    assertStringIncludes(
      shown,
      'Found = TypedDict(\n    "Found",\n    {\n        "id": int,\n    },\n)',
    );
  });

  await step("search_tools shows them", async () => {
    await using host = await McpHost.start({ args: ["--workspace", cwd, "--approve", "deny"] });
    for (const detail of ["signatures", "full"]) {
      const { text } = await host.call("search_tools", { query: "look", detail });
      assertStringIncludes(
        text,
        "look.run_json(...) -> JsonResult  # observed in 1 call, not declared\n" +
          '  JsonResult: {"found": list[Found]}\n' +
          '  Found: {"id": int}',
      );
    }
  });

  await step("code is checked as for run(); what results were like blocks nothing", async () => {
    const cell = (code: string) =>
      command(["run", "--approve", "allow", "-c", `from mcptools.raw import look\n${code}`]);
    const before = await called();
    const wrong = await cell("look.run_json(idd=5)");
    // The type checker says it, where there is one, or else the function itself.
    assertMatch(
      wrong.stderr,
      /TypeError: raw\.look\.run_json\(\) got an|ValidationError: .*'idd'/s,
    );
    assertEquals(await called(), before);
    const right = await cell(
      'print(look.run_json(id=3)["found"][0]["id"] + 4)\nlook.run(id=look.run_json(id=6)["other"])',
    );
    assertEquals([right.code, right.stdout], [1, "7\n"], right.stderr);
    assertStringIncludes(right.stderr, "KeyError: 'other'");
    assertEquals(await called(), [...before, 'called look {"id":3}', 'called look {"id":6}']);
  });

  await step("a server without an API cannot be learnt from", async () => {
    const { code, stderr } = await command(["tools", "--learn", "nothing"]);
    assertEquals(code, 2);
    assertStringIncludes(stderr, 'No Python API for server "nothing"');
  });
});
