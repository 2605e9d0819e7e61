/**
 * Attacks of a session over HTTP on a workspace whose files it is given: on what in there is not for it,
 * and on what links in there lead to.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { ipybox } from "../support/cli.ts";
import { filesBelow } from "../support/files.ts";
import { HttpMcp } from "../support/http_mcp.ts";
import { McpHost } from "../support/mcp_client.ts";
import { TempFolder } from "../support/temp_folder.ts";

const SECRET = "do-not-tell";

/** Files that code may see, by their path. */
const OPEN = {
  "data/a.csv": "a,b",
  "run.sh": "#!/bin/sh\necho runs",
  ".env.example": "KEY=",
  "CLAUDE.md": "be kind",
  "node_modules/x/index.js": "1",
};
/** Files that it may not. */
const HIDDEN = [
  ".env",
  ".env.local",
  "data/.env",
  ".npmrc",
  "sub/.netrc",
  "deep/er/.pypirc",
  ".ipybox/mcp-like.json",
  ".ipybox/sessions/other/file",
  "inner/.ipybox/policy.json",
  "config/named", // by .env.named, a link
];

/** Fills a workspace with what is for sessions and what is not. */
async function fill(workspace: string, outside: string): Promise<void> {
  const write = async (path: string, text: string) => {
    await Deno.mkdir(path.slice(0, path.lastIndexOf("/")), { recursive: true });
    await Deno.writeTextFile(path, text);
  };
  for (const [path, text] of Object.entries(OPEN)) await write(`${workspace}/${path}`, text);
  for (const path of HIDDEN) await write(`${workspace}/${path}`, SECRET);
  await write(`${outside}/file`, SECRET);
  await Deno.chmod(`${workspace}/run.sh`, 0o755);
  const links = {
    "to-a.csv": "data/a.csv",
    ".env.named": "config/named",
    "data/out": `${outside}/file`,
    "out-folder": outside,
    "up": `../${outside.split("/").at(-1)}`,
    "state": ".ipybox",
    "AGENTS.md": "CLAUDE.md",
    "dotenv": "data/.env",
    "root": "/",
  };
  for (const [name, target] of Object.entries(links)) {
    await Deno.symlink(target, `${workspace}/${name}`);
  }
}

/** Reads all that there is below a folder, through links as well. */
const READ_ALL = `
import os
def texts(root):
    found = {}
    for folder, names, files in os.walk(root):
        for name in names + files:
            path = os.path.join(folder, name)
            if os.path.isdir(path) or os.path.isfile(path) or os.path.islink(path):  # and no pipe
                below = [path]
                if os.path.isdir(path):
                    below = [f"{path}/{x}" for x in os.listdir(path) if x != "pipe"]
                for one in below:
                    try:
                        found[os.path.relpath(one, root)] = open(one).read()
                    except OSError as error:
                        found[os.path.relpath(one, root)] = type(error).__name__
    return found
`;

const CHANGE = `
changed = []
for path in ("new", "data/a.csv", "data/new", "CLAUDE.md", ".env", ".ipybox/new"):
    try:
        open(os.path.join(root, path), "a").write("evil")
        changed.append(path)
    except OSError:
        pass
print(changed)`;

/** What is in the workspace, without what ipybox keeps there. */
async function content(workspace: string): Promise<[string, string][]> {
  return [...await filesBelow(workspace)]
    .filter(([path]) => !path.startsWith(".ipybox/") && !path.startsWith("mcptools/"));
}

Deno.test("sessions whose project is the workspace see files, and neither secrets nor what links lead to", async () => {
  await using parent = await TempFolder.create();
  const [workspace, outside] = [`${parent.path}/ws`, `${parent.path}/outside`];
  await fill(workspace, outside);
  const before = await content(workspace);
  await new Deno.Command("mkfifo", { args: [`${workspace}/data/pipe`] }).output();
  await using server = await HttpMcp.start([
    ...["--workspace", workspace, "--project", workspace],
  ]);
  await using host = await McpHost.join(server.address);
  await using other = await McpHost.join(server.address);
  await other.execute(`open("of-other", "w").write(${JSON.stringify(SECRET)})`);

  const found: Record<string, string> = JSON.parse(
    await host.execute(`${READ_ALL}
import json
root = ${JSON.stringify(workspace)}
print(json.dumps(texts(root)))`),
  );
  for (const [path, text] of Object.entries(OPEN)) assertEquals(found[path], text, path);
  assertEquals(found["to-a.csv"], "a,b");
  for (const [path, text] of Object.entries(found)) assert(!text.includes(SECRET), path);
  for (const path of HIDDEN) assert(!(found[path] ?? "").includes(SECRET), path);
  assertEquals(
    await host.execute(
      "import subprocess\n" + `print(subprocess.run(["${workspace}/run.sh"], \
capture_output=True, text=True).stdout.strip())`,
    ),
    "runs",
  );
  const siblings = await host.execute(`print(os.listdir(".."))`);
  assertEquals(siblings.match(/'/g)?.length, 2, siblings); // itself

  assertEquals(await host.execute(CHANGE), "[]");
  await Deno.remove(`${workspace}/data/pipe`); // which the next line would wait at
  assertEquals(await content(workspace), before);
  const where = `Code can read the project ${workspace} by absolute paths, but not write there.`;
  assert(host.instructions.startsWith(where), host.instructions);
  const tool = (await host.tools()).find(({ name }) => name === "execute_ipython_cell");
  assertStringIncludes(tool?.description ?? "", where);
});

Deno.test("a token file in the project that code reads is refused", async () => {
  await using workspace = await TempFolder.create();
  await using project = await TempFolder.create();
  const tokens = `${project.path}/tokens`;
  await Deno.writeTextFile(tokens, "0123456789abcdef\n");
  await Deno.symlink(tokens, `${workspace.path}/link`);
  for (const file of [tokens, `${workspace.path}/link`]) {
    const args = ["--token-file", file, "--workspace", workspace.path, "--project", project.path];
    // One that starts regardless ends where it listens.
    const { code, stderr } = await ipybox(["mcp", "--http", "0", "--host", "192.0.2.1", ...args]);
    assertEquals(code, 2);
    assertStringIncludes(stderr, "is in the project, which --project shows");
  }
});
