import { assertEquals } from "@std/assert";
import { checkedScope, chooseScope } from "./session.ts";

Deno.test("chooseScope() asks for what the server wants, before what it has", () => {
  const supported = ["a", "b"];
  assertEquals(chooseScope({ challenged: "a", supported }), "a");
  assertEquals(chooseScope({ supported }), "a b");
  assertEquals(chooseScope({}), undefined);
});

Deno.test("chooseScope() asks for what the user has set instead", () => {
  assertEquals(chooseScope({ configured: "x", challenged: "a", supported: ["b"] }), "x");
});

Deno.test("chooseScope() loses nothing of the login before", () => {
  assertEquals(chooseScope({ before: "a b", lacking: "c", supported: ["a"] }), "a b c");
  assertEquals(chooseScope({ configured: "x", lacking: "c" }), "x c");
});

Deno.test("chooseScope() asks for a lasting login where there is one", () => {
  const offered = ["a", "offline_access"];
  assertEquals(chooseScope({ challenged: "a", offered }), "a offline_access");
  assertEquals(chooseScope({ offered }), undefined);
});

Deno.test("checkedScope() takes no quotes, control characters or endless lists", () => {
  assertEquals(checkedScope("a:b c/d"), "a:b c/d");
  for (const scope of ['a"b', "a\\b", "a\u001b[31m", "ä", "", " ", "a".repeat(5000)]) {
    assertEquals(checkedScope(scope), undefined);
  }
});
