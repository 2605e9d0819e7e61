import { assertEquals, assertThrows } from "@std/assert";
import { parseRequirement } from "./requirement.ts";

Deno.test("parseRequirement() reads packages of the index with extras and versions", () => {
  for (
    const text of [
      "pandas",
      "pandas[excel, plot]>=2,<3",
      "ruamel.yaml == 0.18.*",
      "numpy~=2.0, !=2.1.1",
      "torch===2.0.0+cu118",
    ]
  ) {
    const { name, ...rest } = parseRequirement(` ${text} `);
    assertEquals(rest, { text, host: undefined });
    assertEquals(name, /^[\w.-]+/.exec(text)?.[0]);
  }
});

Deno.test("parseRequirement() reads Git repositories and says which host they need", () => {
  for (
    const text of [
      "git+https://git.example.org/owner/name",
      "git+https://git.example.org/owner/name.git@v1.2#subdirectory=python",
      "name[extra] @ git+https://git.example.org/owner/name@main",
    ]
  ) {
    assertEquals(parseRequirement(text).host, "git.example.org");
  }
});

Deno.test("parseRequirement() refuses options, paths and other addresses", () => {
  for (
    const text of [
      "",
      "--index-url=http://evil.example",
      "-r requirements.txt",
      "six --pre",
      "six\n--index-url=http://evil.example",
      "six; import os",
      ".",
      "./local",
      "/etc",
      "file:///etc",
      "https://evil.example/x.whl",
      "name @ https://evil.example/x.whl",
      "git+ssh://git@example.org/x",
      "git+file:///x/y",
      "git+http://example.org/x",
      "git+https://user:secret@example.org/x",
      "git+https://localhost/x",
      "git+https://example.org:8443/x",
      "git+https://example.org/$HOME",
      "git+https://example.org/x --pre",
      "a".repeat(501),
    ]
  ) {
    assertThrows(() => parseRequirement(text), TypeError, "Cannot install");
  }
});
