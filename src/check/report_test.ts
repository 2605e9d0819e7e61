import { assertEquals } from "@std/assert";
import { shownNames } from "./report.ts";

Deno.test("shownNames() gives as many names, and as much of them, as people read", () => {
  const tools = [{ server: "github", module: "list" }, { server: "time", module: "" }];
  assertEquals(shownNames(tools), ["github.list", "time"]);

  const many = Array.from({ length: 100 }, () => ({ server: "s".repeat(200), module: "m" }));
  const shown = shownNames(many);
  assertEquals(shown.slice(-2), [`${"s".repeat(100)}…`, "80 more"]);
  assertEquals(shown.length, 21);
});
