/** What code sees of files whose names say that they are secret, wherever and whatever they are. */
import { assertEquals } from "@std/assert";
import { readDotenv } from "../../src/mcp/env.ts";
import { TestExecutor } from "../support/executor.ts";
import { stepsOf } from "../support/steps.ts";
import { TempFolder } from "../support/temp_folder.ts";

/** Secrets in folders of agent programs, editors and package managers, which are read-only as a whole. */
const SECRETS = [
  ".cargo/credentials.toml",
  ".claude/inner/.ipybox/mcp.json",
  "..env.swp",
  ".claude/worktrees/x/.env",
  ".dev.vars-old",
  ".env-production",
  ".env_local",
  ".env~",
  ".gemini/.env",
  ".git/.git-credentials",
  "src/.devcontainer/.env",
];
/** Password managers offer secrets as pipes, which have a reader only while somebody needs them. */
const PIPES = [".env", "src/.env.local", ".gemini/.npmrc"];

const READ = (folder: string) => `
import os
seen = []
for name in ${JSON.stringify([...SECRETS, ...PIPES])}:
    try:
        fd = os.open(os.path.join(${JSON.stringify(folder)}, name), os.O_RDONLY | os.O_NONBLOCK)
        if os.fstat(fd).st_rdev == 0: # not the empty device that hides it
            seen.append(name)
    except OSError:
        pass
print(seen, open(os.path.join(${JSON.stringify(folder)}, ".gemini/settings.json")).read())`;

async function fill(folder: string): Promise<void> {
  for (const name of [...SECRETS, ".gemini/settings.json"]) {
    const path = `${folder}/${name}`;
    await Deno.mkdir(path.slice(0, path.lastIndexOf("/")), { recursive: true });
    await Deno.writeTextFile(path, name);
  }
  const pipes = PIPES.map((name) => `${folder}/${name}`);
  await new Deno.Command("mkfifo", { args: pipes }).output();
}

Deno.test("code sees no secret, and no variables of its own choice count", async (t) => {
  const step = stepsOf(t);
  await using folder = await TempFolder.create();
  await fill(folder.path);
  await using workspace = await TempFolder.create();
  await Deno.mkdir(`${workspace.path}/.env`);
  await using started = await TestExecutor.start({
    workspace: workspace.path,
    sandbox: { project: folder.path },
  });

  await step("it sees none in folders of a project, and none that is a pipe", async () => {
    const { text } = await started.executor.execute(READ(folder.path));
    assertEquals(text, "[] .gemini/settings.json");
  });

  await step("it chooses no variables by a file in the place of a folder .env", async () => {
    await started.executor.execute(`import os
os.rmdir(".env")
open(".env", "w").write("KERNEL_ENV_X=code")`);
    assertEquals(await readDotenv(workspace.path), {});
  });

  await step("it sees none in its workspace", async () => {
    await using started = await TestExecutor.start({ workspace: folder.path });
    const { text } = await started.executor.execute(READ(folder.path));
    assertEquals(text, "[] .gemini/settings.json");
  });
});
