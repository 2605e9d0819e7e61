import { assertEquals } from "@std/assert";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { ConfigError } from "../base/errors.ts";
import { startFailure } from "./call_errors.ts";
import { LoginStore } from "./oauth/store.ts";

const url = "https://mcp.example.com/mcp";
const HIDDEN = `MCP server "remote" cannot be started: ipybox's log says why`;

Deno.test("startFailure() names no file of the host to code", async () => {
  await using folder = await TempFolder.create();
  const store = await LoginStore.find(new URL(url), { folder: folder.path });
  if (store === undefined) throw new Error("There is no place for logins");
  await Deno.writeTextFile(store.path, "{}", { mode: 0o644 });
  const readable = await store.read().catch((error: Error) => error);
  await Deno.remove(store.path);
  await Deno.symlink(store.path, store.path);
  const failed = await store.read().catch((error: Error) => error);
  for (const error of [readable, failed]) {
    if (!(error instanceof Error)) throw new Error("The file was read");
    assertEquals(error.message.includes(folder.path), true);
    assertEquals(startFailure("remote", { url }, error), HIDDEN);
  }
});

Deno.test("startFailure() tells code what the user has to set", () => {
  assertEquals(startFailure("remote", { url }, new ConfigError("Set A")), "Set A");
});
