import { assert, assertEquals } from "@std/assert";
import { cleanTraceback } from "./traceback.ts";
import { cpuMs } from "../../tests/support/stalls.ts";

/** Behaviours of the reference: one entry, and how it is shown. */
const ENTRIES: readonly { name: string; entry: string; shown: string | undefined }[] = [
  {
    name: "drops frames of the runtime",
    entry:
      "File /tmp/session/runtime/ipybox_runtime/client.py:12, in run(self)\n     12 raise error",
    shown: undefined,
  },
  {
    name: "keeps the user's frames, also those that mention the runtime",
    entry: "Cell In[1], line 1\n----> 1 from ipybox_runtime import nothing",
    shown: "Cell In[1], line 1\n----> 1 from ipybox_runtime import nothing",
  },
  { name: "shows !cmd", entry: "----> 1 get_ipython().system('ls -l')", shown: "----> 1 !ls -l" },
  {
    name: "shows x = !cmd",
    entry: "----> 1 x = get_ipython().getoutput('ls')",
    shown: "----> 1 x = !ls",
  },
  { name: "shows !!cmd", entry: "----> 1 get_ipython().getoutput('ls')", shown: "----> 1 !!ls" },
  {
    name: "shows quotes and escapes as written",
    entry: String.raw`get_ipython().system('echo \'a\' "b" \\ \t')`,
    shown: `!echo 'a' "b" \\ \t`,
  },
  {
    name: "understands double quotes",
    entry: `get_ipython().system("echo 'a'")`,
    shown: "!echo 'a'",
  },
  {
    name: "shows line magics",
    entry: "get_ipython().run_line_magic('timeit', 'f()')",
    shown: "%timeit f()",
  },
  {
    name: "shows %%bash",
    entry: String.raw`get_ipython().run_cell_magic('bash', '', 'echo a\nexit 1\n')`,
    shown: "%%bash\necho a\nexit 1\n",
  },
  {
    name: "shows %%sh with its arguments",
    entry: String.raw`get_ipython().run_cell_magic('sh', '--err e', 'exit 1\n')`,
    shown: "%%sh --err e\nexit 1\n",
  },
  {
    name: "shows several calls, also in calls that are none",
    entry:
      `get_ipython().system(get_ipython().system('a')) get_ipython().system('get_ipython().x')`,
    shown: "get_ipython().system(!a) !get_ipython().x",
  },
  {
    name: "tolerates escapes that are not characters",
    entry: String.raw`get_ipython().system('\Uffffffff\U0001f600')`,
    shown: String.raw`!\Uffffffff😀`,
  },
  { name: "leaves other code alone", entry: "get_ipython().ask()", shown: "get_ipython().ask()" },
];

Deno.test("cleanTraceback()", async (t) => {
  for (const { name, entry, shown } of ENTRIES) {
    await t.step(name, () => {
      assertEquals(cleanTraceback([entry]), shown === undefined ? [] : [shown]);
    });
  }
  await t.step("takes an empty traceback", () => assertEquals(cleanTraceback([]), []));
});

Deno.test("cleanTraceback() is linear in hostile text", () => {
  for (
    const part of ["/mcptools/", "get_ipython().run_cell_magic('', \"", "=    ", "\\'\n", ", '"]
  ) {
    const begin = cpuMs();
    cleanTraceback(["File " + part.repeat(2 ** 20 / part.length)]);
    assert(cpuMs() - begin < 1000, `${part}: ${cpuMs() - begin} ms`);
  }
});
