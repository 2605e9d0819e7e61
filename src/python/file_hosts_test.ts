import { assertEquals } from "@std/assert";
import { indexInHelp } from "./default_index.ts";
import { fileHosts } from "./file_hosts.ts";

Deno.test("fileHosts() finds where indexes of both forms have a package's files", async () => {
  const asked: (string | null)[] = [];
  await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
    const { pathname } = new URL(request.url);
    asked.push(pathname, request.headers.get("authorization"));
    switch (pathname) {
      case "/json/my-package/":
        return Response.json(
          { files: [{ url: "https://files.example/a.whl" }, { url: "../b.whl" }] },
          { headers: { "content-type": "application/vnd.pypi.simple.v1+json" } },
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
  assertEquals(await fileHosts(["http://127.0.0.1:1/simple", "nonsense"], "x"), []);
  assertEquals(asked, [
    ...["/json/my-package/", null],
    ...["/html/my-package/", `Basic ${btoa("user:p@ss")}`],
    ...["/none/my-package/", null],
  ]);
});

Deno.test("indexInHelp() reads what pip and uv say, however it is wrapped", () => {
  const pip = "  -i, --index-url <url>  Base URL of the Python Package Index (default\n" +
    "                     https://one.example/simple). This should point to";
  const uv = "The URL of the Python package index (by\n   default: <https://two.example/simple>)";
  assertEquals(indexInHelp(pip), "https://one.example/simple");
  assertEquals(indexInHelp(uv), "https://two.example/simple");
  assertEquals(indexInHelp("--retries <n> (default 5)"), undefined);
});
