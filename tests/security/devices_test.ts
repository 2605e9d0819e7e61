/** What code sees of the machine's devices: what every Linux program needs, and those that the user names. */
import { assertEquals, assertRejects } from "@std/assert";
import { ConfigError } from "../../src/base/errors.ts";
import { devicesOf } from "../../src/sandbox/devices.ts";
import { TestExecutor } from "../support/executor.ts";
import { testIf } from "../support/skip.ts";

/** Devices that bubblewrap does not make by itself. */
const present = ["/dev/fuse", "/dev/kvm", "/dev/loop-control", "/dev/rtc0", "/dev/tty1"]
  .filter((path) => Deno.build.os === "linux" && isDevice(path));
const [named = "", other = ""] = present;

function isDevice(path: string): boolean {
  try {
    return Deno.lstatSync(path).isCharDevice === true;
  } catch {
    return false;
  }
}

testIf(other !== "", "this machine has no devices but the usual ones", {
  name: "code has the device that is named, and none of the machine's others",
  async fn() {
    await using started = await TestExecutor.start({ sandbox: { devices: [named] } });
    const { text } = await started.executor.execute(`import os, stat
print([
    path for path in ${JSON.stringify(present)}
    if os.path.lexists(path) and stat.S_ISCHR(os.lstat(path).st_mode)
])`);
    assertEquals(text, `['${named}']`);
  },
});

Deno.test("no name of a device leads out of /dev", async () => {
  for (
    const name of ["/etc/shadow", "/dev/../etc/shadow", "dev/fuse", "/dev", "/dev/", "gpu", ""]
  ) {
    await assertRejects(() => devicesOf([name]), ConfigError, `Unknown device "${name}"`, name);
  }
});
