import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { TempFolder } from "../../../tests/support/temp_folder.ts";
import { InputHistory } from "./input_history.ts";

Deno.test("a history outlives its session, line breaks included, in a file of its user's only", async () => {
  await using folder = await TempFolder.create();
  const path = join(folder.path, "history");
  const first = await InputHistory.open(path);
  for (const entry of ["a = 1", "if a:\n    '日本'", "if a:\n    '日本'", ""]) {
    await first.add(entry);
  }

  const second = await InputHistory.open(path);

  assertEquals(second.entries, ["a = 1", "if a:\n    '日本'"]);
  assertEquals((await Deno.stat(path)).mode! & 0o777, 0o600);
});

Deno.test("a history is bounded, and leaves out what is no entry", async () => {
  await using folder = await TempFolder.create();
  const path = join(folder.path, "history");
  const lines = Array.from({ length: 2500 }, (_, n) => JSON.stringify(`x = ${n}`));
  await Deno.writeTextFile(path, lines.join("\n") + '\n{"a": 1}\n"torn', { mode: 0o644 });

  const history = await InputHistory.open(path);
  await history.add("x".repeat(30_000));
  await history.add("last");

  assertEquals(history.entries.length, 999);
  assertEquals(history.entries.slice(-2), ["x = 2499", "last"]);
  assertEquals((await Deno.readTextFile(path)).split("\n").length, 1000);
  assertEquals((await Deno.stat(path)).mode! & 0o777, 0o600);
});

Deno.test("a history that is no file is refused", async () => {
  await using folder = await TempFolder.create();
  await assertRejects(() => InputHistory.open(folder.path), Error, "remove or rename it");
});

Deno.test("a history without a file is one of this session", async () => {
  const history = await InputHistory.open(undefined);
  await history.add("a");
  assertEquals(history.entries, ["a"]);
});
