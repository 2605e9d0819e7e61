import { assertEquals, assertStringIncludes } from "@std/assert";
import { ipybox } from "../support/cli.ts";
import { stepsOf } from "../support/steps.ts";
import { TempFolder } from "../support/temp_folder.ts";

const VERSION = "from importlib.metadata import version as v; print(v('iniconfig'))";

Deno.test("ipybox install installs packages for the code of one workspace", async (t) => {
  await using workspace = await TempFolder.create();
  await using other = await TempFolder.create();
  const inWorkspace = ["--workspace", workspace.path];
  const step = stepsOf(t);

  await step("which is without them before", async () => {
    const { code, stderr } = await ipybox(["run", "-c", VERSION, ...inWorkspace]);
    assertEquals(code, 1);
    assertStringIncludes(stderr, "PackageNotFoundError");
  });

  await step("also such of which the kernel has a version for each Python", async () => {
    const names = ["iniconfig==2.0.0", "python-dateutil"];
    const { code, stdout, stderr } = await ipybox(["install", ...names, ...inWorkspace]);
    assertEquals({ code, stdout }, { code: 0, stdout: "" }, stderr);
    assertStringIncludes(stderr, "iniconfig-2.0.0");
  });

  await step("where `run` finds them", async () => {
    const { code, stdout, stderr } = await ipybox(["run", "-c", VERSION, ...inWorkspace]);
    assertEquals({ code, stdout }, { code: 0, stdout: "2.0.0\n" }, stderr);
  });

  await step("and no other workspace does", async () => {
    const { code } = await ipybox(["run", "-c", VERSION, "--workspace", other.path]);
    assertEquals(code, 1);
  });

  await step("and says which it could not install", async () => {
    const { code, stderr } = await ipybox(["install", "iniconfig==0.0.0", ...inWorkspace]);
    assertEquals(code, 1);
    assertStringIncludes(stderr, "\nipybox: iniconfig==0.0.0 was not installed\n");
  });
});

Deno.test("ipybox install takes no paths", async () => {
  const { code, stderr } = await ipybox(["install", "./package"]);
  assertEquals(code, 2);
  assertStringIncludes(stderr, 'Cannot install "./package"');
});
