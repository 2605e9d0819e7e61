import { assertEquals, assertMatch } from "@std/assert";
import { testPython } from "../support/python.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";

const gateway = new URL("../../src/kernel/gateway.ts", import.meta.url);

testIf(Deno.build.os === "linux", "other systems bring their sandbox along", {
  name: "KernelGateway.start() names each program that the sandbox lacks, and how to get them",
  fn: async () => {
    await using workspace = await TempFolder.create();
    await using empty = await TempFolder.create();
    const options = JSON.stringify({ python: testPython(), workspace: workspace.path });
    const script = `
      import { KernelGateway } from "${gateway}";
      await KernelGateway.start(${options}).catch((error) => {
        console.log(JSON.stringify({ name: error.name, message: error.message, fix: error.fix }));
      });`;
    const { stdout } = await new Deno.Command(Deno.execPath(), {
      args: [
        "eval",
        "--no-lock",
        `--config=${new URL("../../deno.json", gateway).pathname}`,
        script,
      ],
      env: { PATH: empty.path },
    }).output();

    const error = JSON.parse(new TextDecoder().decode(stdout));

    assertEquals(error.name, "SandboxUnavailableError");
    assertMatch(error.message, /bwrap is not on the PATH.*socat is not on the PATH.*rg is not on/);
    assertMatch(error.fix, /bubblewrap.*socat.*ripgrep/);
  },
});
