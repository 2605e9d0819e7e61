/** What a repository that somebody made has in its `.ipybox` must not lead the host elsewhere. */
import { assertEquals } from "@std/assert";
import { noteAbsentDotenv } from "../../src/sandbox/protect.ts";
import { TempFolder } from "../support/temp_folder.ts";

Deno.test("a link in the place of a note empties and makes no file of the user's", async () => {
  await using home = await TempFolder.create();
  await using workspace = await TempFolder.create();
  await Deno.writeTextFile(`${home.path}/profile`, "of the user");
  await Deno.mkdir(`${workspace.path}/.ipybox`);
  for (const target of ["profile", "new"]) {
    const note = `${workspace.path}/.ipybox/no-dotenv`;
    await Deno.symlink(`${home.path}/${target}`, note);
    await noteAbsentDotenv(workspace.path);
    await Deno.remove(note);
  }
  assertEquals(await Deno.readTextFile(`${home.path}/profile`), "of the user");
  const names = await Array.fromAsync(Deno.readDir(home.path), ({ name }) => name);
  assertEquals(names, ["profile"]);
});

Deno.test("a pipe in the place of a note holds nobody up", async () => {
  await using workspace = await TempFolder.create();
  await Deno.mkdir(`${workspace.path}/.ipybox`);
  const { success } = await new Deno.Command("mkfifo", {
    args: [`${workspace.path}/.ipybox/no-dotenv`],
  }).output();
  assertEquals(success, true);
  await noteAbsentDotenv(workspace.path);
});
