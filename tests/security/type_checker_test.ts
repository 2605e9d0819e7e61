/** The type checker reads what code may have written: it can change nothing and reach nobody. */
import { assertEquals } from "@std/assert";
import { asset } from "../../src/assets/mod.ts";
import { testIf } from "../support/skip.ts";
import { testPython } from "../support/python.ts";
import { TempFolder } from "../support/temp_folder.ts";

const ATTEMPTS = `
import os, socket, sys
folder, port, pid = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def attempt(name, action):
    try:
        action()
        print(name, "worked")
    except OSError as error:
        print(name, type(error).__name__)
attempt("read", lambda: open(folder + "/there").read())
attempt("write", lambda: open(folder + "/there", "w"))
attempt("create", lambda: open(folder + "/new", "w"))
attempt("mkdir", lambda: os.mkdir(folder + "/d"))
attempt("remove", lambda: os.remove(folder + "/there"))
attempt("rename", lambda: os.rename(folder + "/there", folder + "/other"))
attempt("truncate", lambda: os.truncate(folder + "/there", 0))
attempt("link", lambda: os.symlink("/etc", folder + "/l"))
attempt("connect", lambda: socket.create_connection(("127.0.0.1", port), 2))
attempt("signal", lambda: os.kill(pid, 0))
attempt("environment", lambda: print(sorted(os.environ)))
`;

async function landlockVersion(): Promise<number> {
  const code = "import ctypes; print(ctypes.CDLL(None).syscall(444, None, 0, 1))";
  const command = new Deno.Command(testPython(), { args: ["-c", code] });
  return Number(new TextDecoder().decode((await command.output()).stdout));
}

const version = Deno.build.os === "linux" ? await landlockVersion() : 0;

testIf(
  version >= 6,
  "this system's Landlock is older than version 6",
  {
    name: "what becomes the type checker can read, but not write, connect or signal",
    fn: async () => {
      await using folder = await TempFolder.create();
      await Deno.writeTextFile(`${folder.path}/there`, "text");
      await Deno.writeTextFile(`${folder.path}/checker.py`, asset("launcher/checker.py"));
      using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
      const python = testPython();

      const { stdout, stderr } = await new Deno.Command(python, {
        args: [
          ...["-I", "-S", `${folder.path}/checker.py`, python, "-c", ATTEMPTS],
          ...[folder.path, `${listener.addr.port}`, `${Deno.pid}`],
        ],
      }).output();

      assertEquals(new TextDecoder().decode(stdout).trim().split("\n"), [
        "read worked",
        ...["write", "create", "mkdir", "remove", "rename", "truncate", "link", "connect", "signal"]
          .map((name) => `${name} PermissionError`),
        "['LC_CTYPE', 'TY_MAX_PARALLELISM']",
        "environment worked",
      ], new TextDecoder().decode(stderr));
      assertEquals(await Deno.readTextFile(`${folder.path}/there`), "text");
    },
  },
);
