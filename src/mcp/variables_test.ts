import { assertEquals } from "@std/assert";
import { trustedPath } from "./variables.ts";

Deno.test("trustedPath() leaves out what executed code may write to", () => {
  const path = [
    "/space/node_modules/.bin",
    "/usr/bin",
    ".",
    "",
    "node_modules/.bin",
    "/space",
    "/space/../space/x",
    "/workshop/bin",
    "/",
  ];
  assertEquals(trustedPath(path.join(":"), "/space"), "/usr/bin:/workshop/bin:/");
  assertEquals(trustedPath("/space/bin:.:/usr/bin", ""), "/space/bin:/usr/bin");
});
