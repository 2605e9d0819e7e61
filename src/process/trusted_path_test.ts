import { assertEquals } from "@std/assert";
import { isInside, trustedPath } from "./trusted_path.ts";

Deno.test("trustedPath() leaves out what executed code may write to", async () => {
  const path = [
    "/space/node_modules/.bin",
    "/usr/bin",
    ".",
    "",
    "node_modules/.bin",
    "/space",
    "/space/../space/x",
    "/session/bin",
    "/workshop/bin",
    "/",
  ];
  const untrusted = ["/space", "/session"];
  assertEquals(await trustedPath(path.join(":"), untrusted), "/usr/bin:/workshop/bin:/");
  assertEquals(await trustedPath("/space/bin:.:/usr/bin", []), "/space/bin:/usr/bin");
});

Deno.test("isInside() looks at where a path leads, not at how it is written", () => {
  for (const path of ["/a", "/a/", "/a/b", "/a/..b", "/x/../a/b"]) {
    assertEquals(isInside(path, "/a"), true, path);
  }
  for (const path of ["/", "/ab", "/a/../b", "/b/a"]) {
    assertEquals(isInside(path, "/a"), false, path);
  }
  assertEquals(isInside("/a", "/"), true);
});
