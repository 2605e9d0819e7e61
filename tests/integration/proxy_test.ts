import { assertEquals } from "@std/assert";
import { TempFolder } from "../support/temp_folder.ts";
import { testPython } from "../support/python.ts";

const root = new URL("../../", import.meta.url).href;
const config = new URL("../../deno.json", import.meta.url).pathname;
const lock = new URL("../../deno.lock", import.meta.url).pathname;

Deno.test("Nothing for this machine's own addresses goes through the user's proxy", async () => {
  await using workspace = await TempFolder.create();
  using proxy = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const seen: string[] = [];
  const serving = (async () => {
    for await (const connection of proxy) {
      const buffer = new Uint8Array(4096);
      const count = await connection.read(buffer) ?? 0;
      seen.push(new TextDecoder().decode(buffer.subarray(0, count)).split("\r\n")[0] ?? "");
      connection.close();
    }
  })();
  const options = { python: testPython(), workspace: workspace.path, sandbox: false };
  const script = `
    import { ApprovalClient } from "${root}approval.ts";
    import { CodeExecutor, silentLogger } from "${root}mod.ts";
    const options = { ...${JSON.stringify(options)}, log: silentLogger };
    await using executor = await CodeExecutor.start(options);
    const { url, token } = executor.applicationDoor;
    await using client = await ApprovalClient.connect({ url, token, onRequest() {} });
    console.log((await executor.execute("1 + 1")).text);`;
  const address = `http://127.0.0.1:${proxy.addr.port}`;
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    // By the lock file and the cache: packages would be asked for through the proxy, too.
    args: ["eval", "--cached-only", "--frozen", `--lock=${lock}`, `--config=${config}`, script],
    env: { HTTP_PROXY: address, http_proxy: address, ALL_PROXY: address },
  }).output();
  proxy.close();
  await serving;

  const decoder = new TextDecoder();
  assertEquals(decoder.decode(stdout), "2\n", decoder.decode(stderr));
  assertEquals(seen, []);
});
