import { assertEquals } from "@std/assert";
import { selfTestFailures, type SelfTestReport } from "./selftest.ts";

const GOOD: SelfTestReport = {
  pid: 2,
  uid: 1000,
  platform: "linux",
  unix_socket: "EPERM",
  seccomp: "2",
  no_new_privs: "1",
  canary_file: "ENOENT",
  canary_port: "ECONNREFUSED",
  canary_process: "ESRCH",
};

Deno.test("selfTestFailures() finds nothing where the sandbox holds", () => {
  assertEquals(selfTestFailures(GOOD), []);
});

const { seccomp: _seccomp, ...UNFILTERED } = GOOD;
for (
  const [name, report] of Object.entries<SelfTestReport>({
    "a Unix socket": { ...GOOD, unix_socket: "allowed" },
    "no filter": { ...GOOD, seccomp: "0" },
    "nothing said of a filter": UNFILTERED,
    "privileges": { ...GOOD, no_new_privs: "0" },
    "a file": { ...GOOD, canary_file: "open" },
    "a port": { ...GOOD, canary_port: "open" },
    "a process": { ...GOOD, canary_process: "visible" },
  })
) {
  Deno.test(`selfTestFailures() reports ${name}`, () => {
    assertEquals(selfTestFailures(report).length, 1);
  });
}
