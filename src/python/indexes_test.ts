import { assertEquals, assertStringIncludes } from "@std/assert";
import { inOwnProcess } from "../../tests/support/own_process.ts";
import { testPython } from "../../tests/support/python.ts";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { indexSettings, uvConfig } from "./indexes.ts";

const main = "https://public.example/simple";
const plain = `--index-url ${main}\n`;

Deno.test("indexSettings() allows the public index where nothing is configured", () => {
  const { hosts, indexes } = indexSettings({ plain });
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
  const { hosts, paths, certificates } = indexSettings({ pip, plain });
  assertEquals(hosts, ["four.example", "one.example", "three.example", "two.example"]);
  assertEquals([paths, certificates], [["/wheels", "/etc/ca.pem"], "/etc/ca.pem"]);
  assertEquals(indexSettings({ pip: { "no-index": "true" }, plain }).hosts, []);
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

Deno.test("readIndexSettings() asks uv, whose sources count instead of pip's", async () => {
  await using folder = await TempFolder.create();
  const config = `${folder.path}/uv.toml`;
  const read = async (env: Record<string, string>) =>
    await inOwnProcess(
      `const { readIndexSettings } = await load("src/python/indexes.ts");
      const executable = ${JSON.stringify(testPython())};
      const uv = executable.replace(/python$/, "uv");
      return await readIndexSettings({ executable }, { uv })
        .catch(({ name, message }) => ({ name, message }));`,
      { HOME: folder.path, PIP_EXTRA_INDEX_URL: "https://pip.example", ...env },
    ) as { indexes: string[]; paths: string[]; alike: boolean; name: string; message: string };

  const ofPip = await read({});
  assertEquals([ofPip.indexes[1], ofPip.alike], ["https://pip.example", true]);
  await Deno.writeTextFile(
    config,
    `[pip]\nfind-links = ["${folder.path}"]\n` +
      '[[index]]\nurl = "https://u:p@one.example"\ndefault = true\n' +
      '[[index]]\nurl = "https://two.example"\n',
  );
  const ofUv = await read({ UV_CONFIG_FILE: config });
  assertEquals(ofUv.indexes, ["https://u:p@one.example", "https://two.example"]);
  assertEquals([ofUv.paths[0], ofUv.alike], [folder.path, false]);
  const variables = {
    UV_INDEX: "own=https://three.example",
    UV_DEFAULT_INDEX: "https://four.example",
  };
  assertEquals((await read(variables)).indexes, ["https://four.example", "https://three.example"]);
  await Deno.writeTextFile(config, "index-url = 3");
  const { name, message } = await read({ UV_CONFIG_FILE: config });
  assertEquals(name, "ConfigError");
  assertStringIncludes(message, config);
});

Deno.test("uvConfig() translates pip's configuration for uv", () => {
  const pip = {
    "index-url": "https://one.example/simple",
    "extra-index-url": "https://two.example/simple",
    "find-links": "/wheels",
    "trusted-host": "one.example two.example:8443",
    "only-binary": "numpy,scipy",
    timeout: "90",
    target: "/tmp/x",
  };
  const settings = indexSettings({ pip, plain });
  assertEquals(
    uvConfig(settings),
    'index = [{ url = "https://two.example/simple" }, ' +
      '{ url = "https://one.example/simple", default = true }]\n' +
      'index-strategy = "unsafe-best-match"\nfind-links = ["/wheels"]\n' +
      'allow-insecure-host = ["one.example","two.example:8443"]\n' +
      '[pip]\nonly-binary = ["numpy","scipy"]',
  );
  assertEquals(settings.env, { UV_HTTP_TIMEOUT: "90" });
  const offline = uvConfig(indexSettings({ pip: { "no-index": "1" }, plain }));
  assertEquals(offline, "index = []\nno-index = true\n[pip]");
});

Deno.test("indexSettings() finds the secrets that open an index, wherever they are", () => {
  const isSecret = (url: string) =>
    indexSettings({ pip: { "extra-index-url": url }, plain }).secret;
  for (
    const url of [
      "https://someone:secret@pypi.example/simple",
      "https://token@pypi.example/simple",
      "https://dl.example/S3cretTokenOfThirty/acme/python/simple/",
      "https://pypi.example/simple?token=1",
    ]
  ) assertEquals(isSecret(url), true, url);
  const pip = { "client-cert": "/home/me/key.pem" };
  assertEquals(indexSettings({ pip, plain }).secret, true);
  const open = "https://packages.example/artifactory/api/pypi/python-remote-mirror/simple";
  assertEquals(isSecret(open), false);
  const own = `${plain}--extra-index-url https://someone:secret@pypi.example/simple\n`;
  assertEquals(indexSettings({ own, plain }).secret, true);
});
