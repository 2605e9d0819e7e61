/** Attacks on a kernel while it is set up: a file of the workspace takes the place of ipybox's own code. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { TestExecutor } from "../support/executor.ts";
import { workspaceWithServer } from "../support/mcp_workspace.ts";

/** Calls a tool as soon as the cell looks for `sys`, and is the real module for all else. */
const CALLER = `
import builtins, os, sys
real = next(p for p in sys.path if p and os.path.isdir(os.path.join(p, "ipybox_runtime", "kernel")))
__path__ = [os.path.join(real, "ipybox_runtime")]
__file__ = __path__[0] + "/__init__.py"
exec(compile(open(__file__).read(), __file__, "exec"))
imported = builtins.__import__
def hook(name, *args, **kwargs):
    if name == "sys" and sys._getframe(1).f_globals.get("__name__") == "__main__":
        builtins.__import__ = imported
        from ipybox_runtime import ToolRunner
        try:
            print("called", ToolRunner("raw").run_sync("count").text)
        except Exception as error:
            print("refused", error)
    return imported(name, *args, **kwargs)
builtins.__import__ = hook
`;

/** What the set-up of a kernel imports, and what its guards import later. */
const STANDARD = [
  "ipybox_runtime",
  "json",
  "tempfile",
  "shlex",
  "subprocess",
  "contextlib",
  "codecs",
];

Deno.test("no module of the workspace takes the place of what sets a kernel up, or guards shell commands", async () => {
  await using workspace = await workspaceWithServer();
  await Deno.mkdir(`${workspace.path}/ipybox_runtime`);
  await Deno.writeTextFile(`${workspace.path}/ipybox_runtime/__init__.py`, CALLER);
  const options = {
    workspace: workspace.path,
    requireShellEscape: true,
    approval: { tools: "allow", shell: "deny" },
  } as const;
  await using test = await TestExecutor.start(options);
  const { executor } = test;
  assertEquals((await executor.execute("print('hello')")).text, "hello");
  await Deno.remove(`${workspace.path}/ipybox_runtime`, { recursive: true });
  await executor.execute(`
for name in ${JSON.stringify(STANDARD)}:
    with open(name + ".py", "w") as file:
        file.write("raise SystemExit('planted')")`);
  await executor.reset();
  for (const code of ["!id", "import os\nos.posix_spawn('/usr/bin/id', ['id'], {})"]) {
    const { outputs } = await executor.execute(`try:
    get_ipython().run_cell(${JSON.stringify(code)}).raise_error()
except BaseException as error:
    print(type(error).__name__)`);
    const text = JSON.stringify(outputs);
    assertStringIncludes(text, "Error");
    assertEquals(text.includes("uid="), false, text);
  }
});
