import { assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { ConfigError } from "../base/errors.ts";
import { parseSandboxConfig, readSandboxConfig } from "./config.ts";

Deno.test("parseSandboxConfig() refuses keys that it does not know, and names them", () => {
  const refused = (value: unknown, text: string) =>
    assertThrows(() => parseSandboxConfig(value), ConfigError, text);
  refused({ filesystem: { denyReed: ["/etc"] } }, "denyReed");
  refused({ filesystem: { denyRead: "/etc" } }, "filesystem.denyRead");
  refused({ netwerk: {} }, "netwerk");
  refused([], "Invalid sandbox config");
});

for (
  const unsafe of [
    { network: { allowAllUnixSockets: true } },
    { filesystem: { disabled: true } },
    { enableWeakerNestedSandbox: true },
    { allowNestedUserNamespaces: true },
  ]
) {
  Deno.test(`parseSandboxConfig() requires consent for ${JSON.stringify(unsafe)}`, () => {
    assertThrows(() => parseSandboxConfig(unsafe), ConfigError, "allowUnsafe");
    assertEquals(parseSandboxConfig(unsafe, { allowUnsafe: true }), unsafe);
  });
}

Deno.test("readSandboxConfig() says which file is wrong and how", async () => {
  await using folder = await TempFolder.create();
  const path = `${folder.path}/sandbox.json`;
  await assertRejects(
    () => readSandboxConfig(path, { workspace: folder.path }),
    ConfigError,
    `${path} do not exist`,
  );
  await Deno.writeTextFile(path, '{\n  "network": }');
  await assertRejects(
    () => readSandboxConfig(path, { workspace: folder.path }),
    ConfigError,
    `${path}:2:14: Expected a value`,
  );
  await Deno.writeTextFile(path, '{ "network": { "allow": [] } }');
  await assertRejects(() => readSandboxConfig(path, { workspace: folder.path }), ConfigError, path);
  await Deno.writeTextFile(path, '{ "network": { "allowedDomains": ["a.org"] } }');
  assertEquals(await readSandboxConfig(path, { workspace: folder.path }), {
    network: { allowedDomains: ["a.org"] },
  });
});

Deno.test("readSandboxConfig() reads what Windows' editors write, in a workspace and elsewhere", async () => {
  await using workspace = await TempFolder.create();
  await using elsewhere = await TempFolder.create();
  for (const { path: folder } of [workspace, elsewhere]) {
    const path = `${folder}/sandbox.json`;
    await Deno.writeTextFile(path, '\ufeff{"network": {"allowedDomains": ["example.com"]}}\r\n');
    const config = await readSandboxConfig(path, { workspace: workspace.path, trust: "all" });
    assertEquals(config.network?.allowedDomains, ["example.com"]);
  }
});

Deno.test("A sandbox config names the hosts that it allows", () => {
  const every = { network: { allowedDomains: ["*"] } };
  const error = assertThrows(() => parseSandboxConfig(every), ConfigError);
  assertMatch(error.message, /List the hosts, such as "api\.example\.com"/);
});
