/** What kernels have of the user's environment, and what they leave to the next. */
import { assertEquals, assertMatch } from "@std/assert";
import { workspaceCache } from "../../src/place/workspace_cache.ts";
import { TestExecutor } from "../support/executor.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { variables } from "../support/variables.ts";

const VARIABLES = {
  TZ: "Asia/Tokyo",
  USER: "somebody",
  GIT_AUTHOR_EMAIL: "somebody@example.com",
  LC_TIME: "de_DE.UTF-8",
  LC_NUMERIC: "de_DE.ISO-8859-1", // not taken
};

for (const sandbox of [true, false]) {
  const where = sandbox ? "in the sandbox" : "without the sandbox";

  Deno.test(`Kernels ${where} know the user and the time zone`, async () => {
    using _variables = variables(VARIABLES);
    await using test = await TestExecutor.start({ sandbox });
    const code = `import os, time, getpass
[os.environ.get(name) for name in ${
      JSON.stringify(Object.keys(VARIABLES))
    }], time.tzname, getpass.getuser()`;
    assertEquals(
      (await test.executor.execute(code)).text,
      "(['Asia/Tokyo', 'somebody', 'somebody@example.com', 'de_DE.UTF-8', None],\n" +
        " ('JST', 'JST'),\n 'somebody')",
    );
  });
}

Deno.test("What a kernel caches is there for the next one of its workspace", async () => {
  await using folder = await TempFolder.create();
  // As matplotlib's list of fonts
  const path = "import os, pathlib; path = pathlib.Path(os.environ['MPLCONFIGDIR'], 'list')";
  {
    await using test = await TestExecutor.start({ workspace: folder.path });
    await test.executor.execute(
      "import matplotlib, pathlib; pathlib.Path(matplotlib.get_cachedir(), 'list').write_text('known')",
    );
  }
  await using test = await TestExecutor.start({ workspace: folder.path });
  assertEquals((await test.executor.execute(`${path}; path.read_text()`)).text, "'known'");
  await using other = await TestExecutor.start();
  assertEquals((await other.executor.execute(`${path}; path.exists()`)).text, "False");
});

Deno.test("What tiktoken downloads is cached, and LlamaIndex finds the data that it brings", async () => {
  await using test = await TestExecutor.start();
  const code = `import os
os.path.relpath(os.environ["DATA_GYM_CACHE_DIR"], os.environ["XDG_CACHE_HOME"]), [
    name for name in ("NLTK_DATA", "TIKTOKEN_CACHE_DIR") if name in os.environ]`;
  assertEquals((await test.executor.execute(code)).text, "('tiktoken', [])");
});

Deno.test("A cache is the workspace's own, and only the user's", async () => {
  const [one, other] = await Promise.all(["/nonexistent/a", "/nonexistent/b"].map(workspaceCache));
  assertMatch(one ?? "", /\/workspaces\/\w+\/cache$/);
  assertEquals(one === other, false);
  assertEquals(((await Deno.stat(one ?? "")).mode ?? 0) & 0o777, 0o700);
});

Deno.test("a kernel without a sandbox connects to no socket of the host", async () => {
  await using folder = await TempFolder.create();
  const path = `${folder.path}/agent`;
  using listener = Deno.listen({ transport: "unix", path });
  let reached = false;
  const accepting = listener.accept().then((connection) => {
    connection.close();
    reached = true;
  }, () => {}); // nobody came until it was closed
  using _agent = variables({ SSH_AUTH_SOCK: path });
  {
    await using test = await TestExecutor.start({ sandbox: false });
    assertEquals((await test.executor.execute("6 * 7")).text, "42");
  }
  assertEquals(reached, false);
  listener.close();
  await accepting;
});
