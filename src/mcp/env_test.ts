import { assertEquals } from "@std/assert";
import { silentLogger } from "../base/log.ts";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { readDotenv } from "./env.ts";

Deno.test("A .env that is a link is ignored with a warning", async () => {
  await using folder = await TempFolder.create();
  await Deno.writeTextFile(`${folder.path}/shared`, "KEY=shared");
  await Deno.symlink("shared", `${folder.path}/.env`);
  const warnings: string[] = [];
  const log = { ...silentLogger, warn: (message: string) => void warnings.push(message) };

  const variables = await readDotenv(folder.path, log);

  assertEquals(variables, {});
  assertEquals(warnings, [
    `${folder.path}/.env is ignored: code can write what a link leads to. Put a copy in its place`,
  ]);
});

Deno.test("A folder named .env is no settings file", async () => {
  await using folder = await TempFolder.create();
  await Deno.mkdir(`${folder.path}/.env`);
  assertEquals(await readDotenv(folder.path), {});
});
