import { assertThrows } from "@std/assert";
import { SandboxUnavailableError } from "../base/errors.ts";
import { requireApart } from "./remote_place.ts";

Deno.test("requireApart() refuses a Linux on which code could take the place of a connection", () => {
  requireApart({ platform: "linux", landlock: 2 }, "docker");
  requireApart({ platform: "darwin" }, "a command");
  for (const landlock of [undefined, 0, 1]) {
    assertThrows(
      () => requireApart({ platform: "linux", landlock }, "docker"),
      SandboxUnavailableError,
      "A durable session cannot be protected from code at docker without Landlock",
    );
  }
});
