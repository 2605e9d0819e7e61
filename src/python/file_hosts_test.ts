import { assertEquals, assertStringIncludes } from "@std/assert";
import { testIf } from "../../tests/support/skip.ts";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { silentLogger } from "../base/log.ts";
import { fileHosts } from "./file_hosts.ts";

const JSON_PAGE = { "content-type": "application/vnd.pypi.simple.v1+json" };

Deno.test("fileHosts() finds where indexes of both forms have a package's files", async () => {
  const asked: (string | null)[] = [];
  await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
    const { pathname } = new URL(request.url);
    asked.push(pathname, request.headers.get("authorization"));
    switch (pathname) {
      case "/json/my-package/":
        return Response.json(
          { files: [{ url: "https://files.example/a.whl" }, { url: "../b.whl" }] },
          { headers: JSON_PAGE },
        );
      case "/html/my-package/":
        return new Response(
          '<a href="https://cdn.example/a.whl#sha256=1">a</a><A class=x HREF="/b">b</A><a href="ftp://no/">c</a>',
          { headers: { "content-type": "text/html" } },
        );
      default:
        return new Response("no", { status: 404 });
    }
  });
  const { port } = server.addr;
  const at = (path: string) => `http://127.0.0.1:${port}${path}`;

  assertEquals(await fileHosts([at("/json/")], "My_Package"), ["127.0.0.1", "files.example"]);
  const secret = `http://user:p%40ss@127.0.0.1:${port}/html`;
  assertEquals(await fileHosts([secret, at("/none")], "my.package"), ["127.0.0.1", "cdn.example"]);
  const silent: string[] = [];
  const onSilent = (index: string) => void silent.push(index);
  const dead = ["http://127.0.0.1:1/simple", "nonsense"];
  assertEquals(await fileHosts([...dead, at("/none")], "x", { onSilent }), []);
  assertEquals(silent.toSorted(), dead.toSorted());
  assertEquals(asked, [
    ...["/json/my-package/", null],
    ...["/html/my-package/", `Basic ${btoa("user:p@ss")}`],
    ...["/none/my-package/", null],
    ...["/none/x/", null],
  ]);
});

Deno.test("fileHosts() opens no host that only this machine or its network knows", async () => {
  const links = [
    ...["http://localhost/a", "http://127.0.0.2/a", "http://169.254.169.254/a", "http://[::1]/a"],
    ...["http://2130706433/a", "http://printer/a", "http://app.localhost/a", "http://*.example/a"],
    ...["https://files.example/a", "/b"],
  ];
  await using server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    ({ url }) =>
      url.includes("/json/")
        ? Response.json({ files: links.map((url) => ({ url })) }, { headers: JSON_PAGE })
        : new Response(links.map((link) => `<a href="${link}">a</a>`).join("\n")),
  );
  for (const form of ["json", "html"]) {
    const hosts = await fileHosts([`http://127.0.0.1:${server.addr.port}/${form}`], "x");
    assertEquals(hosts, ["127.0.0.1", "files.example"], form);
  }
});

testIf(hasOpenssl(), "there is no openssl", {
  name: "fileHosts() trusts the certificates that the installer is configured to trust",
  fn: async () => {
    await using folder = await TempFolder.create();
    const file = (name: string) => `${folder.path}/${name}`;
    await Deno.writeTextFile(file("names"), "subjectAltName=DNS:localhost");
    const subject = ["-nodes", "-days", "2", "-newkey", "rsa:2048", "-subj", "/CN=test"];
    await openssl("req", "-x509", ...subject, "-keyout", file("ca.key"), "-out", file("ca.pem"));
    await openssl("req", ...subject, "-keyout", file("key.pem"), "-out", file("request.pem"));
    const authority = ["-CA", file("ca.pem"), "-CAkey", file("ca.key"), "-CAcreateserial"];
    const signed = ["-extfile", file("names"), "-days", "2", "-out", file("cert.pem")];
    await openssl("x509", "-req", "-in", file("request.pem"), ...authority, ...signed);
    await using server = Deno.serve(
      {
        hostname: "127.0.0.1",
        port: 0,
        cert: await Deno.readTextFile(file("cert.pem")),
        key: await Deno.readTextFile(file("key.pem")),
        onListen() {},
      },
      () =>
        Response.json({ files: [{ url: "https://files.example/a.whl" }] }, { headers: JSON_PAGE }),
    );
    const index = `https://localhost:${server.addr.port}/simple`;

    const warnings: string[] = [];
    const log = { ...silentLogger, warn: (message: string) => void warnings.push(message) };
    assertEquals(await fileHosts([index], "x", { log }), []);
    assertEquals(await fileHosts([index], "x", { log, certificates: "/no/such/file" }), []);
    assertEquals(warnings.length, 3);
    assertStringIncludes(warnings[0] ?? "", `Cannot ask ${new URL(index).origin} for x`);
    assertStringIncludes(warnings[1] ?? "", "/no/such/file");

    const hosts = await fileHosts([index], "x", { log, certificates: file("ca.pem") });
    assertEquals(hosts, ["files.example"]);
    assertEquals(warnings.length, 3);
  },
});

function hasOpenssl(): boolean {
  try {
    return new Deno.Command("openssl", { args: ["version"] }).outputSync().success;
  } catch {
    return false; // it is not installed
  }
}

async function openssl(...args: string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command("openssl", { args }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}
