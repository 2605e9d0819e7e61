import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { parse } from "@std/toml";
import { inOwnProcess } from "../../tests/support/own_process.ts";
import { testPython } from "../../tests/support/python.ts";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { ConfigError } from "../base/errors.ts";
import { indexSettings, readUvConfig, uvConfig } from "./indexes.ts";

const main = "https://public.example/simple";

Deno.test("indexSettings() allows the public index where nothing is configured", () => {
  const { hosts, indexes } = indexSettings({ main });
  assertEquals([hosts, indexes], [["public.example"], [main]]);
});

Deno.test("indexSettings() allows the indexes that pip uses and no other", () => {
  const pip = {
    "index-url": "https://user:secret@one.example/simple",
    "extra-index-url": "\nhttps://two.example/simple\nhttps://three.example:8443/simple",
    cert: "/etc/ca.pem",
    "find-links": "/wheels https://four.example/links",
    proxy: "http://five.example",
  };
  const { hosts, paths, certificates } = indexSettings({ pip, main });
  assertEquals(hosts, ["four.example", "one.example", "three.example", "two.example"]);
  assertEquals([paths, certificates], [["/wheels", "/etc/ca.pem"], "/etc/ca.pem"]);
  assertEquals(indexSettings({ pip: { "no-index": "true" }, main }).hosts, []);
});

Deno.test("readPipOptions() asks pip, however quiet that is, and does without it", async () => {
  await using folder = await TempFolder.create();
  const named = `${folder.path}/pip.conf`;
  await Deno.writeTextFile(
    named,
    "[install]\nextra_index_url =\n  https://a.example\n  https://it's.example\n" +
      "[global]\nindex-url = https://user.example\nextra-index-url = https://c.example\n" +
      "timeout = 7\nquiet = 2\n[list]\nretries = 8\n",
  );
  const read = async (executable: string) =>
    await inOwnProcess(
      `const { readPipOptions } = await load("src/python/indexes.ts");
      return await readPipOptions(${JSON.stringify({ executable })})
        .catch(({ name, message }) => ({ name, message }));`,
      { HOME: folder.path, PIP_CERT: "/ca", PIP_TIMEOUT: "9", PIP_CONFIG_FILE: named },
    ) as Record<string, string>;

  const own = await read(testPython());
  assertEquals(own["index-url"], "https://user.example");
  assertEquals(own["extra-index-url"], "\nhttps://a.example\nhttps://it's.example");
  assertEquals([own.timeout, own.cert, own.retries], ["9", "/ca", undefined]);
  const args = ["-I", "-m", "venv", "--without-pip", `${folder.path}/bare`];
  assertEquals((await new Deno.Command(testPython(), { args }).output()).success, true);
  assertEquals(await read(`${folder.path}/bare/bin/python`), {});
  await Deno.writeTextFile(named, "trusted-host\n");
  const { name = "", message = "" } = await read(testPython());
  assertEquals(name, "ConfigError");
  assertStringIncludes(message, named);
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
  const pip = { "index-url": "https://pip.example", "find-links": "/wheels" };
  const configs = [{ "index-url": "https://uv.example" }];
  const { indexes, paths } = indexSettings({ pip, configs, main });
  assertEquals([indexes, paths], [["https://uv.example"], ["/wheels"]]);
});

Deno.test("uvConfig() says in uv's words what pip is told", () => {
  const pip = {
    "index-url": "https://one.example/simple",
    "extra-index-url": "https://two.example/simple",
    "find-links": "/wheels",
    "trusted-host": "one.example two.example:8443",
    "only-binary": "numpy,scipy",
    timeout: "90",
    target: "/tmp/x",
  };
  const settings = indexSettings({ pip, main });
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
  assertEquals(parse(uvConfig(indexSettings({ pip: { "no-index": "1" }, main }))), {
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
  const isSecret = (url: string) => indexSettings({ pip: { "extra-index-url": url }, main }).secret;
  for (
    const url of [
      "https://someone:secret@pypi.example/simple",
      "https://token@pypi.example/simple",
      "https://dl.example/S3cretTokenOfThirty/acme/python/simple/",
      "https://pypi.example/simple?token=1",
    ]
  ) assertEquals(isSecret(url), true, url);
  const pip = { "client-cert": "/home/me/key.pem" };
  assertEquals(indexSettings({ pip, main }).secret, true);
  const open = "https://packages.example/artifactory/api/pypi/python-remote-mirror/simple";
  assertEquals(isSecret(open), false);
  const env = { UV_INDEX: "acme=https://someone:secret@pypi.example/simple" };
  assertEquals(indexSettings({ env, main }).secret, true);
});
