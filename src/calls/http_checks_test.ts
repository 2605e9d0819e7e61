import { assertEquals } from "@std/assert";
import { declaredLength } from "./http_checks.ts";

Deno.test("declaredLength() knows no length where there are several", () => {
  const declared = (length: string) =>
    declaredLength(new Request("http://x", { headers: { "content-length": length } }));
  assertEquals([declared("2"), declared("2, 2")], [2, undefined]);
});
