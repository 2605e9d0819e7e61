import { assertEquals } from "@std/assert";
import { fileURLToPath } from "node:url";
import { TestGateway } from "../support/kernel.ts";

Deno.test("KernelClient needs the gateway's port and a folder, and writes nothing to stdout", async () => {
  await using own = await TestGateway.start();
  const { gateway, workspace } = own;
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--no-check",
      "--no-prompt",
      `--allow-net=${gateway.url.host}`,
      `--allow-read=${workspace}`,
      `--allow-write=${workspace}/images`,
      fileURLToPath(new URL("../fixtures/kernel_client.ts", import.meta.url)),
      gateway.url.href,
      gateway.token,
      `${workspace}/images`,
    ],
  });
  const { stdout, stderr } = await child.output();
  assertEquals(new TextDecoder().decode(stderr), "42 1");
  assertEquals(stdout.length, 0);
});
