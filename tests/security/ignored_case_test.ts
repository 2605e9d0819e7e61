/** A file system that ignores case, where a mount covers one spelling of a name. */
import { assertEquals, assertRejects } from "@std/assert";
import { ConfigError } from "../../src/base/errors.ts";
import { runProgram } from "../support/program.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { TestExecutor } from "../support/executor.ts";

const TOOLS = ["mkfs.exfat", "mount.exfat-fuse", "losetup"];
const found = await Promise.all(
  TOOLS.map((name) => runProgram("sh", ["-c", `command -v ${name}`]).catch(() => undefined)),
);
const canMount = Deno.build.os === "linux" && Deno.uid() === 0 &&
  found.every((end) => end?.success === true);

testIf(canMount, "only root with exfat-fuse and exfatprogs can mount such a file system", {
  name:
    "a workspace whose file system ignores case is refused, whatever inodes it gives to spellings",
  fn: async () => {
    await using folder = await TempFolder.create();
    const [image, mounted] = [`${folder.path}/image`, `${folder.path}/mounted`];
    const run = async (line: string) => {
      const { code, stdout, stderr } = await runProgram("sh", ["-ec", line]);
      assertEquals(code, 0, stderr);
      return stdout.trim();
    };
    await run(`truncate -s 64M ${image}; mkfs.exfat ${image}; mkdir ${mounted}`);
    const device = await run(`losetup -f --show ${image}`);
    try {
      await run(`mount.exfat-fuse ${device} ${mounted}; mkdir ${mounted}/workspace`);
      await assertRejects(
        () => TestExecutor.start({ workspace: `${mounted}/workspace` }),
        ConfigError,
        "its file system ignores case",
      );
    } finally {
      await runProgram("sh", ["-c", `umount ${mounted}; losetup -d ${device}`]);
    }
  },
});
