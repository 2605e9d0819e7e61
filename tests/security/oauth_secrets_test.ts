/** Tokens stay on the host: executed code, generated code, logs and errors have none of them. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { testPython } from "../support/python.ts";
import { TempFolder } from "../support/temp_folder.ts";

const search = fileURLToPath(new URL("../fixtures/token_search.ts", import.meta.url));

const reportSchema = z.object({
  said: z.array(z.string()),
  files: z.record(z.string(), z.string()),
  secrets: z.array(z.string()),
  refused: z.string(),
});

Deno.test("executed code calls a server that wants a login, and finds no token anywhere", async (t) => {
  await using state = await TempFolder.create();
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--quiet", search],
    env: { IPYBOX_PYTHON: testPython(), NO_COLOR: "1", XDG_STATE_HOME: state.path },
  }).output();
  assertEquals(code, 0, new TextDecoder().decode(stderr));
  const { said, files, secrets, refused } = reportSchema.parse(
    JSON.parse(new TextDecoder().decode(stdout)),
  );
  const text = said.join("\n");

  await t.step("it calls the tool, before and after a refresh", () => {
    assertMatch(text, /^CALLED .*echo: hello/m);
    assertMatch(text, /echo: again/);
  });

  await t.step("it finds nothing, and the folder with the logins empty", () => {
    assertMatch(text, /^SEEN \[\]/m);
    assertMatch(text, /^OPENED \S+\/ipybox \[\]\nDENIED FileNotFoundError/m);
  });

  await t.step("when the login has ended, it is told what its user can do", () => {
    assertMatch(text, /^ENDED .* requires a login: run `ipybox login remote --workspace /m);
  });

  await t.step("no log, output or file of the workspace has a token", () => {
    const paths = Object.keys(files);
    assert(secrets.length >= 5);
    assert(paths.some((path) => path.includes("audit")), "the audit log was not looked at");
    assert(paths.some((path) => path.includes("mcp.json")), "the registry was not looked at");
    assert(paths.some((path) => path.endsWith(".py")), "no generated code was looked at");
    for (const secret of secrets) {
      for (const [path, content] of Object.entries(files)) assert(!content.includes(secret), path);
      assert(!text.includes(secret), text);
    }
  });

  await t.step("the folder of the logins cannot be in a workspace", () => {
    assertMatch(refused, /^ConfigError: Cannot use .*: logins to MCP servers are stored in /);
  });
});
