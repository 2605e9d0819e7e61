import { assertEquals, assertThrows } from "@std/assert";
import { parseRequirement, parseRequirements } from "./requirement.ts";

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
      "git+https://localhost./x",
      "git+https://git.localhost/x",
      "git+https://127.0.0.1/x",
      "git+https://0x7f.1/x",
      "git+https://[::1]/x",
      "git+https://%2A.example.org/x",
      "git+https://example.org:8443/x",
      "git+https://example.org/$HOME",
      "git+https://example.org/x --pre",
      "a".repeat(501),
    ]
  ) {
    assertThrows(() => parseRequirement(text), TypeError, "Cannot install");
  }
});

Deno.test("parseRequirement() reads the Pythons and systems that a package applies to", () => {
  for (
    const text of [
      `tomli>=2 ; python_version < "3.11"`,
      `six; "linux" in sys_platform or 'arm'not in platform_machine`,
      `pywin32==306; sys_platform == 'win32' and python_version >= "3.10"`,
    ]
  ) {
    assertEquals(parseRequirement(text).text, text);
  }
  for (const text of [`six; python_version < 3 or`, `six; "a" b "c"`, `six; os = "x"`]) {
    assertThrows(() => parseRequirement(text), TypeError, "Cannot install");
  }
});

Deno.test("parseRequirement() refuses a condition that could be read in many ways without trying them all", () => {
  for (const word of ["xininininx", "not inot in", "'a'in'in'in'a'"]) {
    const text = `six; ${Array(40).fill(word).join(" and ")}`.slice(0, 490) + " !";
    assertThrows(() => parseRequirement(text), TypeError, "Cannot install");
  }
});

Deno.test("parseRequirements() reads a requirements file and says where it cannot", () => {
  const text = "# all\r\npandas>=2  # frames\n\nhttpx[http2]\n";
  const names = parseRequirements(text, "r.txt").map((requirement) => requirement.text);
  assertEquals(names, ["pandas>=2", "httpx[http2]"]);
  assertThrows(
    () => parseRequirements("pandas\n--index-url https://example.org\n", "r.txt"),
    TypeError,
    'r.txt:2: Cannot install "--index-url',
  );
});
