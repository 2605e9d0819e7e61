/** No sandbox lets what is in it reach around its namespaces, not even as root. */
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { isInside } from "../../src/process/trusted_path.ts";
import { TestExecutor } from "../support/executor.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { whyNotUnprivileged } from "../support/unprivileged.ts";

const linux = Deno.build.os === "linux";
const isRoot = linux && Deno.uid() === 0;
const whyNot = isRoot ? await whyNotUnprivileged() : "only root can mount a /tmp of its own";

const words = z.record(z.string(), z.string());
const reportSchema = z.object({
  namespaces: words,
  capabilities: z.array(z.string()),
  written: words,
  read: words,
  folders: words,
  shared_memory: z.string(),
  own_shared_memory: z.boolean(),
  open_folders: z.array(z.string()),
  keys: words,
  calls: words,
  allowed: words,
  etc: z.object({
    secrets: z.array(z.string()),
    host: z.string(),
    user: z.boolean(),
    services: z.union([z.number(), z.literal(false)]),
  }),
  unix: words,
  sockets: words,
  folder_mode: z.string(),
  shared_folder: words,
  in_memory: z.record(z.string(), z.number()),
  root: z.string(),
  limits: z.record(z.string(), z.number()),
});
type Report = z.infer<typeof reportSchema>;
const reportsSchema = z.record(z.string(), reportSchema);
const afterSchema = z.object({
  key: z.string().nullable(),
  left_key: z.string().nullable(),
  left_segment: z.boolean(),
  reached: z.array(z.string()),
  slowed: z.boolean(),
  namespaces: words,
});

/** A file that the sandbox replaces, and that only root may read. */
const HOSTS_OF_ROOT = `
install -m 600 /etc/hosts /run/hosts
mount --bind /run/hosts /etc/hosts
`;

/** The folders below `/tmp` that the probes need: a checkout, a home or a cache may be there. */
const KEPT = [
  fileURLToPath(new URL("../..", import.meta.url)),
  ...["HOME", "DENO_DIR"].map((name) => Deno.env.get(name) || "/"),
].filter((path) => isInside(path, "/tmp")).map((path) => `'${path}'`).join(" ");

/**
 * Runs the probes where `/tmp`, `/run` and `/dev/shm` are folders of their own, with the folder that
 * sandboxes share, and in a network and with shared memory of their own: others here may have the same
 * sockets without a path, or the same key.
 */
const IN_OWN_TMP = `
ip link set lo up
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=1777 tmpfs /run
for path in ${KEPT}; do
  mkdir -p "/run/kept$path"
  mount --bind "$path" "/run/kept$path"
done
mount -t tmpfs -o mode=1777 tmpfs /tmp
for path in ${KEPT}; do
  mkdir -p "$path"
  mount --move "/run/kept$path" "$path"
done
mkdir -m 777 /tmp/claude /tmp/scratch
echo of another sandbox > /tmp/claude/other
`;

const RUN = 'exec "$@" 7</ # as shells leave descriptors open for what they start';

async function probes(fixture: string, mounts: string): Promise<{
  reports: Record<string, Report>;
  after: z.infer<typeof afterSchema>;
}> {
  const program = fileURLToPath(new URL(`../fixtures/wall/${fixture}`, import.meta.url));
  const deno = [Deno.execPath(), "run", "-A", "--quiet", "--cached-only", program, "/tmp/scratch"];
  const { success, stdout, stderr } = await new Deno.Command("unshare", {
    args: [
      "--mount",
      "--net",
      "--ipc",
      "--propagation",
      "private",
      "sh",
      "-ec",
      `${IN_OWN_TMP}${mounts}${RUN}`,
      "sh",
      ...deno,
    ],
    stdin: "null",
    signal: AbortSignal.timeout(240_000), // where a sandbox lets it, the kernel may keep a probe
  }).output();
  assert(success, new TextDecoder().decode(stderr));
  const [reports = "", after = ""] = new TextDecoder().decode(stdout).trim().split("\n");
  return {
    reports: reportsSchema.parse(JSON.parse(reports)),
    after: afterSchema.parse(JSON.parse(after)),
  };
}

const GIB = 1024 ** 3;
const SANDBOXES = ["kernel", "server", "server that reads all", "installer"];

for (
  const [user, fixture, mounts] of [
    ["root", "sandboxes.ts", HOSTS_OF_ROOT],
    ["an ordinary user", "as_user.ts", ""],
  ] as const
) {
  testIf(whyNot === undefined, whyNot ?? "", {
    name: `as ${user}, nothing in a sandbox reaches around its namespaces`,
    fn: async (t) => {
      const { reports, after: { namespaces: host, ...after } } = await probes(fixture, mounts);
      assertEquals(Object.keys(reports), SANDBOXES);
      for (const [sandbox, report] of Object.entries(reports)) {
        await t.step(`${sandbox}: namespaces and memory are its own`, () => {
          for (const [kind, namespace] of Object.entries(report.namespaces)) {
            assertNotEquals(namespace, host[kind], kind);
          }
          assertEquals(report.shared_memory, "ENOENT");
          assertEquals(report.own_shared_memory, true);
          assertEquals(report.open_folders, []);
        });
        await t.step(`${sandbox}: it has no capabilities, and no file of the machine`, () => {
          assertEquals(report.capabilities, []);
          for (const [path, outcome] of Object.entries(report.written)) {
            assertNotEquals(outcome, "open", path);
          }
          for (const [path, outcome] of Object.entries(report.read)) {
            assertNotEquals(outcome, "open", path);
          }
          for (const [path, outcome] of Object.entries(report.folders)) {
            assert(["ENOENT", "nothing"].includes(outcome), `${path}: ${outcome}`);
          }
        });
        await t.step(`${sandbox}: keys and dangerous calls are refused, others are not`, () => {
          assertEquals(new Set(Object.values(report.keys)), new Set(["EPERM"]));
          const { clone3, openat2, ...calls } = report.calls;
          assertEquals([clone3, openat2], ["ENOSYS", "ENOSYS"]);
          for (const [call, outcome] of Object.entries(calls)) assertEquals(outcome, "EPERM", call);
          assertEquals(new Set(Object.values(report.allowed)), new Set(["done"]));
          assertEquals(report.folder_mode, "0o0");
        });
        await t.step(`${sandbox}: /etc has what every user may read, and names that work`, () => {
          const { secrets, host, user, services } = report.etc;
          assert([443, false].includes(services));
          if (sandbox === "server that reads all") return; // it sees what the user does
          assertEquals([secrets, host, user], [[], "127.0.0.1", true]);
        });
        await t.step(`${sandbox}: no socket of the host can be reached, and its own work`, () => {
          // One that reads all would see those of the host.
          const own = sandbox === "server that reads all" ? "EPERM" : "done";
          assertEquals(new Set(Object.values(report.unix)), new Set([own]));
          assertEquals(Object.keys(report.sockets).length, 22);
          for (const [path, outcome] of Object.entries(report.sockets)) {
            assert(
              ["ENOENT", "ECONNREFUSED", "ENOTSOCK", "EPERM"].includes(outcome),
              path + outcome,
            );
          }
        });
        await t.step(
          `${sandbox}: nothing can be left in the folder that all sandboxes share`,
          () => {
            const { read, write = "" } = report.shared_folder;
            if (sandbox !== "server that reads all") assertEquals(read, "ENOENT");
            assert(["ENOENT", "EROFS"].includes(write), write);
          },
        );
        await t.step(`${sandbox}: file systems in memory are bounded together`, () => {
          const sizes = Object.values(report.in_memory);
          assert(sizes.reduce((sum, size) => sum + size, 0) <= 4 * GIB);
          if (sandbox !== "server that reads all") assertEquals(report.root, "tmpfs");
        });
      }
      await t.step("the host's key, memory, sockets and priority are as they were", () => {
        assertEquals(after, {
          key: "HOST-TICKET",
          left_key: null,
          left_segment: false,
          reached: [],
          slowed: false,
        });
      });
      await t.step("installers have the limits of executed code", () => {
        assertEquals(reports.installer?.limits, reports.kernel?.limits);
        assertEquals(reports.installer?.limits.RLIMIT_DATA, 8 * GIB);
      });
    },
  });
}

testIf(linux, "elsewhere the sandbox has no namespaces", {
  name: "two sessions share no memory and no socket, and move no folder above what is protected",
  fn: async () => {
    await using workspace = await TempFolder.create();
    const path = await Deno.realPath(workspace.path);
    await Deno.mkdir(`${path}/a b/[c]/d`, { recursive: true });
    await Deno.writeTextFile(`${path}/a b/[c]/d/.env`, "SECRET=1");
    const options = { workspace: path };
    await using first = await TestExecutor.start(options);
    await using second = await TestExecutor.start(options);
    const libc = "import ctypes, os, socket\nlibc = ctypes.CDLL(None, use_errno=True)\n";
    assertEquals(
      (await first.executor.execute(`${libc}
print(libc.shmget(0x5EC0003, 4096, 0o1600) >= 0, libc.mq_open(b"/ipybox", 0o102, 0o600, None) >= 0)
print(os.write(os.open("/dev/shm/ipybox", os.O_CREAT | os.O_WRONLY), b"x"))
memory = os.memfd_create("ipybox-memory")
listener = socket.socket(socket.AF_UNIX)
listener.bind("\\0ipybox")
listener.listen()
own = socket.socket(socket.AF_UNIX)
own.connect("\\0ipybox")
`)).text,
      "True True\n1",
    );
    assertEquals(
      (await second.executor.execute(`${libc}
print(libc.shmget(0x5EC0003, 0, 0), libc.mq_open(b"/ipybox", 0), os.listdir("/dev/shm"))
print([fd for pid in os.listdir("/proc") if pid.isdigit() for fd in os.listdir(f"/proc/{pid}/fd")
       if os.access(f"/proc/{pid}/fd", os.R_OK) and os.path.exists(f"/proc/{pid}/fd/{fd}")
       and "ipybox-memory" in os.readlink(f"/proc/{pid}/fd/{fd}")])
try:
    socket.socket(socket.AF_UNIX).connect("\\0ipybox")
except OSError as error:
    print(type(error).__name__)
`)).text,
      "-1 -1 []\n[]\nConnectionRefusedError",
    );
    const { text } = await first.executor.execute(`
import errno, os
def attempt(*paths):
    try:
        return os.rename(*paths) or "done"
    except OSError as error:
        return errno.errorcode[error.errno]
open("file", "w").close()
os.mkdir("folder")
print(attempt("a b", "elsewhere"), attempt("a b/[c]", "e"), attempt("a b/[c]/d", "e"))
print(attempt("file", "a b/[c]/file"), attempt("folder", "a b/folder"))
`);
    assertEquals(text?.trim().split("\n"), ["EBUSY EBUSY EBUSY", "done done"]);
  },
});
