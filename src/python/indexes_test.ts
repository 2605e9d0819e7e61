import { assertEquals, assertRejects } from "@std/assert";
import { parse } from "@std/toml";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { ConfigError } from "../base/errors.ts";
import { indexSettings, parsePipOptions, readUvConfig, uvConfig } from "./indexes.ts";

const main = "https://public.example/simple";

/** What follows from the output of `pip config list`. */
function ofPip(listing: string) {
  return indexSettings({ pip: parsePipOptions(listing), main });
}

Deno.test("indexSettings() allows the public index where nothing is configured", () => {
  const { hosts, indexes } = indexSettings({ main });
  assertEquals([hosts, indexes], [["public.example"], [main]]);
});

Deno.test("indexSettings() allows the indexes that pip uses and no other", () => {
  const { hosts, paths, certificates } = ofPip(`
global.index-url='https://user:secret@one.example/simple'
global.extra-index-url='https://two.example/simple\\nhttps://three.example:8443/simple'
global.cert='/etc/ca.pem'
install.find-links='/wheels https://four.example/links'
:env:.proxy='http://five.example'
`);
  assertEquals(hosts, ["four.example", "one.example", "three.example", "two.example"]);
  assertEquals([paths, certificates], [["/wheels", "/etc/ca.pem"], "/etc/ca.pem"]);
});

Deno.test("indexSettings() counts pip's variables more than its files", () => {
  const { hosts } = ofPip(
    `:env:.index-url='https://one.example'\nglobal.index-url='https://two.example'`,
  );
  assertEquals(hosts, ["one.example"]);
  assertEquals(ofPip("global.no-index='true'").hosts, []);
});

Deno.test("indexSettings() follows uv's files, and its variables even more", () => {
  const configs = [
    { "index-url": "https://one.example", pip: { "find-links": ["/wheels"] } },
    {
      index: [{ url: "https://two.example", default: true }, {
        url: "https://three.example",
        default: false,
      }],
    },
  ];
  const settings = indexSettings({ configs, main });
  assertEquals(settings.indexes, ["https://two.example", "https://three.example"]);
  assertEquals(settings.paths, ["/wheels"]);
  const env = {
    UV_DEFAULT_INDEX: "https://four.example",
    UV_INDEX: "own=https://five.example https://six.example",
  };
  assertEquals(indexSettings({ configs, env, main }).hosts, [
    "five.example",
    "four.example",
    "six.example",
  ]);
  assertEquals(indexSettings({ configs: [{ "no-index": true }], main }).hosts, []);
});

Deno.test("indexSettings() counts what uv is told more than what pip is told", () => {
  const pip = new Map([["index-url", "https://pip.example"], ["find-links", "/wheels"]]);
  const configs = [{ "index-url": "https://uv.example" }];
  const { indexes, paths } = indexSettings({ pip, configs, main });
  assertEquals([indexes, paths], [["https://uv.example"], ["/wheels"]]);
});

Deno.test("uvConfig() says in uv's words what pip is told", () => {
  const settings = ofPip(`
global.index-url='https://one.example/simple'
global.extra-index-url='https://two.example/simple'
global.find-links='/wheels'
global.trusted-host='one.example two.example:8443'
global.only-binary='numpy,scipy'
global.timeout='90'
global.target='/tmp/x'
`);
  assertEquals(parse(uvConfig(settings)), {
    index: [
      { url: "https://two.example/simple" },
      { url: "https://one.example/simple", default: true },
    ],
    "index-strategy": "unsafe-best-match",
    "find-links": ["/wheels"],
    "allow-insecure-host": ["one.example", "two.example:8443"],
    pip: { "only-binary": ["numpy", "scipy"] },
  });
  assertEquals(settings.env, { UV_HTTP_TIMEOUT: "90" });
  assertEquals(parse(uvConfig(ofPip("global.no-index='1'"))), {
    index: [],
    "no-index": true,
    pip: {},
  });
});

Deno.test("readUvConfig() reads the user's file, and says what is wrong with it", async () => {
  await using folder = await TempFolder.create();
  const path = `${folder.path}/uv.toml`;
  assertEquals(await readUvConfig(path), {});
  await Deno.writeTextFile(path, '[[index]]\nurl = "https://one.example"\ndefault = true\n');
  assertEquals((await readUvConfig(path)).index, [{ url: "https://one.example", default: true }]);
  await Deno.writeTextFile(path, "index-url = 3");
  await assertRejects(() => readUvConfig(path), ConfigError, "uv.toml");
});

Deno.test("indexSettings() finds what opens an index, wherever it stands", () => {
  const isSecret = (url: string) => ofPip(`global.extra-index-url='${url}'\n`).secret;
  for (
    const url of [
      "https://someone:secret@pypi.example/simple",
      "https://token@pypi.example/simple",
      "https://dl.example/S3cretTokenOfThirty/acme/python/simple/",
      "https://pypi.example/simple?token=1",
    ]
  ) assertEquals(isSecret(url), true, url);
  assertEquals(ofPip("global.client-cert='/home/me/key.pem'\n").secret, true);
  const open = "https://packages.example/artifactory/api/pypi/python-remote-mirror/simple";
  assertEquals(isSecret(open), false);
  const env = { UV_INDEX: "acme=https://someone:secret@pypi.example/simple" };
  assertEquals(indexSettings({ env, main }).secret, true);
});
