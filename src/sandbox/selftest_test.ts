import { assertEquals } from "@std/assert";
import { selfTestFailures, type SelfTestReport } from "./selftest.ts";

const GOOD: SelfTestReport = {
  pid: 2,
  uid: 1000,
  platform: "linux",
  unix_socket: "EPERM",
  seccomp: "2",
  no_new_privs: "1",
  capabilities: [],
  shared_namespaces: [],
  keyring: "EPERM",
  datagrams: "EPERM",
  setuid: "EPERM",
  writable: [],
  readable: [],
  canary_file: "ENOENT",
  canary_port: "ECONNREFUSED",
  canary_process: "ESRCH",
};

Deno.test("selfTestFailures() finds nothing where the sandbox holds", () => {
  assertEquals(selfTestFailures(GOOD), []);
});

const { seccomp: _seccomp, ...UNFILTERED } = GOOD;
const { shared_namespaces: _shared, ...UNSEEN } = GOOD;
for (
  const [name, report] of Object.entries<SelfTestReport>({
    "a Unix socket": { ...GOOD, unix_socket: "allowed" },
    "no filter": { ...GOOD, seccomp: "0" },
    "nothing said of a filter": UNFILTERED,
    "privileges": { ...GOOD, no_new_privs: "0" },
    "capabilities": { ...GOOD, capabilities: ["CapEff"] },
    "the host's IPC": { ...GOOD, shared_namespaces: ["ipc"] },
    "a pair of datagram sockets": { ...GOOD, datagrams: "allowed" },
    "files that run as their owner": { ...GOOD, setuid: "EBADF" },
    "keys": { ...GOOD, keyring: "allowed" },
    "a file of the kernel's that can be written": { ...GOOD, writable: ["/proc/sysrq-trigger"] },
    "the kernel's memory": { ...GOOD, readable: ["/proc/kcore"] },
    "nothing said of namespaces": UNSEEN,
    "a file": { ...GOOD, canary_file: "open" },
    "a port": { ...GOOD, canary_port: "open" },
    "a process": { ...GOOD, canary_process: "visible" },
  })
) {
  Deno.test(`selfTestFailures() reports ${name}`, () => {
    assertEquals(selfTestFailures(report).length, 1);
  });
}
