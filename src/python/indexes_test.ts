import { assertEquals, assertRejects } from "@std/assert";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { ConfigError } from "../base/errors.ts";
import { hasSecrets, indexSettings, readUvSettings, uvSettings } from "./indexes.ts";

const PUBLIC = "https://public.example/simple";

Deno.test("indexSettings() allows the public index where nothing is configured", () => {
  const { hosts, indexes } = indexSettings("", PUBLIC);
  assertEquals([hosts, indexes], [["public.example"], [PUBLIC]]);
});

Deno.test("indexSettings() allows the configured indexes and no other", () => {
  const { hosts, paths } = indexSettings(
    `
global.index-url='https://user:secret@one.example/simple'
global.extra-index-url='https://two.example/simple\\nhttps://three.example:8443/simple'
global.cert='/etc/ca.pem'
install.find-links='/wheels https://four.example/links'
:env:.proxy='http://five.example'
`,
    PUBLIC,
  );
  assertEquals(hosts, ["four.example", "one.example", "three.example", "two.example"]);
  assertEquals(paths, ["/wheels", "/etc/ca.pem"]);
});

Deno.test("indexSettings() counts variables more than files", () => {
  const { hosts } = indexSettings(
    `:env:.index-url='https://one.example'\nglobal.index-url='https://two.example'`,
    PUBLIC,
  );
  assertEquals(hosts, ["one.example"]);
  assertEquals(indexSettings("global.no-index='true'", PUBLIC).hosts, []);
});

Deno.test("indexSettings() passes on what it was told, and nothing else of pip's options", () => {
  const settings = indexSettings(
    `global.extra-index-url='https://a.example\\nhttps://b.example'\nglobal.target='/tmp/x'`,
    PUBLIC,
  );
  assertEquals(
    settings.file,
    "[global]\nextra-index-url = https://a.example\n  https://b.example\n",
  );
});

Deno.test("uvSettings() follows uv's files and variables", () => {
  const files = [
    { "index-url": "https://one.example", pip: { "find-links": ["/wheels"] } },
    {
      index: [{ url: "https://two.example", default: true }, {
        url: "https://three.example",
        default: false,
      }],
    },
  ];
  const settings = uvSettings(files, {}, PUBLIC);
  assertEquals(settings.hosts, ["three.example", "two.example"]);
  assertEquals(settings.paths, ["/wheels"]);
  assertEquals(settings.env.UV_DEFAULT_INDEX, "https://two.example");
  const { hosts } = uvSettings(files, {
    UV_DEFAULT_INDEX: "https://four.example",
    UV_INDEX: "own=https://five.example https://six.example",
  }, PUBLIC);
  assertEquals(hosts, ["five.example", "four.example", "six.example"]);
  assertEquals(uvSettings([], {}, PUBLIC).hosts, ["public.example"]);
  assertEquals(uvSettings([{ "no-index": true }], {}, PUBLIC).hosts, []);
});

Deno.test("readUvSettings() reads the user's file, and says what is wrong with it", async () => {
  await using folder = await TempFolder.create();
  const env = { UV_CONFIG_FILE: `${folder.path}/uv.toml` };
  assertEquals((await readUvSettings(env, PUBLIC)).hosts, ["public.example"]);
  await Deno.writeTextFile(
    env.UV_CONFIG_FILE,
    '[[index]]\nurl = "https://one.example"\ndefault = true\n',
  );
  assertEquals((await readUvSettings(env, PUBLIC)).hosts, ["one.example"]);
  await Deno.writeTextFile(env.UV_CONFIG_FILE, "index-url = 3");
  await assertRejects(() => readUvSettings(env, PUBLIC), ConfigError, "uv.toml");
});

Deno.test("hasSecrets() finds what opens an index, wherever it stands", () => {
  const listing = (url: string) => `global.extra-index-url='${url}'\n`;
  const main = "https://pypi.example/simple";
  for (
    const url of [
      "https://someone:secret@pypi.example/simple",
      "https://token@pypi.example/simple",
      "https://dl.example/S3cretTokenOfThirty/acme/python/simple/",
      "https://pypi.example/simple?token=1",
    ]
  ) assertEquals(hasSecrets(indexSettings(listing(url), main)), true, url);
  assertEquals(hasSecrets(indexSettings("global.client-cert='/home/me/key.pem'\n", main)), true);
  const open = "https://packages.example/artifactory/api/pypi/python-remote-mirror/simple";
  assertEquals(hasSecrets(indexSettings(listing(open), main)), false);
  const env = { UV_INDEX: "acme=https://someone:secret@pypi.example/simple" };
  assertEquals(hasSecrets(uvSettings([], env, main)), true);
});
