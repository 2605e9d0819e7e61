import { assert, assertEquals, assertFalse } from "@std/assert";
import { dirname } from "node:path";
import { SessionFolder } from "./session_folder.ts";

Deno.test("SessionFolder removes what killed processes have left, and nothing else", async () => {
  const module = new URL("./session_folder.ts", import.meta.url);
  const script = `
    import { dirname } from "node:path";
import { SessionFolder } from "${module}";
    const folder = await SessionFolder.create();
    console.log(folder.root);
    Deno.kill(Deno.pid, "SIGKILL");`;
  const killed = await new Deno.Command(Deno.execPath(), {
    args: [
      "eval",
      "--no-lock",
      `--config=${new URL("../../deno.json", import.meta.url).pathname}`,
      script,
    ],
    stderr: "null",
  }).output();
  const left = new TextDecoder().decode(killed.stdout).trim();
  await using living = await SessionFolder.create();
  const others = await Deno.makeTempDir({ dir: dirname(living.root) });
  try {
    assertEquals(dirname(left), dirname(living.root));

    const next = await SessionFolder.create();

    assertFalse(await exists(left));
    assert(await exists(living.launcher));
    assert(await exists(others)); // it has no lock: it has only just been made
    await next[Symbol.asyncDispose]();
    assertFalse(await exists(next.root));
  } finally {
    await Deno.remove(others);
  }
});

async function exists(path: string): Promise<boolean> {
  try {
    return (await Deno.lstat(path)).isDirectory;
  } catch (error) {
    assertEquals(error instanceof Deno.errors.NotFound, true);
    return false;
  }
}
