/** Files that servers write where they start: code is told where they are, or finds them. */
import { assertEquals, assertMatch } from "@std/assert";
import { ipybox } from "../support/cli.ts";
import { TestExecutor } from "../support/executor.ts";
import { rawServer } from "../support/mcp.ts";
import { McpHost } from "../support/mcp_client.ts";
import { TempFolder } from "../support/temp_folder.ts";

async function notesOf({ executor }: TestExecutor, calls: string): Promise<string[]> {
  const code = `
from ipybox_runtime import ToolRunner
def write(server, path, say):
    ToolRunner(server).run_sync("write", {"path": path, "say": say})
${calls}`;
  const notes: string[] = [];
  for await (const event of executor.stream(code, { timeoutMs: 60_000 })) {
    if (event.type === "approval") await event.request.accept();
    if (event.type === "note") notes.push(event.text);
  }
  return notes;
}

Deno.test("a result that names a file in the server's own folder is explained, once", async () => {
  const servers = { raw: rawServer(), other: rawServer() };
  await using test = await TestExecutor.start({ sandbox: false, servers });
  const unnamed = [
    'write("raw", "pages/first.yml", "Saved it")',
    'write("raw", "shot.png", "See big-shot.png, /tmp/no.png and shot.pngs")',
  ];
  assertEquals(await notesOf(test, unnamed.join("\n")), []);
  const named = [
    'write("raw", "a.txt", "[Snapshot](pages/first.yml)")',
    'write("raw", "a.txt", "[Snapshot](pages/first.yml)")',
    'write("other", "shot.png", "a.b " * 20 + "/etc/passwd ../x.y Saved as ./shot.png.")',
  ];
  const says = (file: string, server: string) =>
    `[ipybox] '${file}' is in a folder of MCP server "${server}" that code cannot read, and ` +
    "that is removed with it. To keep its files, the user can register it with a folder of the workspace, " +
    "such as --output-dir '${workspaceFolder}/output'";
  assertEquals(await notesOf(test, named.join("\n")), [
    says("pages/first.yml", "raw"),
    says("shot.png", "other"),
  ]);
});

Deno.test("with a working directory in the workspace, code finds what a server wrote", async () => {
  await using workspace = await TempFolder.create();
  const cwd = workspace.path;
  const { command, args = [] } = rawServer();
  const words = ["--cwd", "${workspaceFolder}", "--", command, ...args];
  const { code, stderr } = await ipybox(["register", "raw", ...words], { cwd });
  assertEquals(code, 0, stderr);
  await ipybox(["register", "plain", "--", command, ...args], { cwd });
  await using host = await McpHost.start({ args: ["--workspace", cwd, "--approve", "allow"] });
  const call = (path: string) =>
    `from mcptools.raw import CLIENT\nCLIENT.run_sync("write", {"path": "${path}", "say": "${path}"})`;
  const cell = async (code: string) => (await host.call("execute_ipython_cell", { code })).text;
  assertEquals(
    await cell(`${call("pages/a.yml")}\nprint(open("pages/a.yml").read())`),
    "written",
  );
  assertMatch(
    await cell(call("pages/b.yml").replaceAll("raw", "plain")),
    /\n\n\[ipybox\] 'pages\/b\.yml' is in a folder of MCP server "plain" that code cannot read/,
  );
});
