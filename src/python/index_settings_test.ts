import { assertEquals } from "@std/assert";
import { indexSettings, pipConfig } from "./index_settings.ts";

Deno.test("indexSettings() allows the public index where nothing is configured", () => {
  assertEquals(indexSettings("").hosts, ["files.index.example", "index.example"]);
});

Deno.test("indexSettings() allows the configured indexes and no other", () => {
  const { hosts, paths } = indexSettings(`
global.index-url='https://user:secret@one.example/simple'
global.extra-index-url='https://two.example/simple\\nhttps://three.example:8443/simple'
global.cert='/etc/ca.pem'
install.find-links='/wheels https://four.example/links'
:env:.proxy='http://five.example'
`);
  assertEquals(hosts, ["four.example", "one.example", "three.example", "two.example"]);
  assertEquals(paths, ["/wheels", "/etc/ca.pem"]);
});

Deno.test("indexSettings() counts variables more than files", () => {
  const { hosts } = indexSettings(
    `:env:.index-url='https://one.example'\nglobal.index-url='https://two.example'`,
  );
  assertEquals(hosts, ["one.example"]);
  assertEquals(indexSettings("global.no-index='true'").hosts, []);
});

Deno.test("pipConfig() passes on what it was told, and nothing else of pip's options", () => {
  const settings = indexSettings(
    `global.extra-index-url='https://a.example\\nhttps://b.example'\nglobal.target='/tmp/x'`,
  );
  assertEquals(
    pipConfig(settings),
    "[global]\nextra-index-url = https://a.example\n  https://b.example\n",
  );
});
