/** What is kept from other kernels, and from code that looks for tokens. */
import { assertEquals, assertMatch } from "@std/assert";
import { follow } from "../support/executor.ts";
import { stepsOf } from "../support/steps.ts";
import { attack, DENIED, Siege } from "./siege.ts";
import { stateOf } from "../support/workspace_state.ts";

Deno.test("A7, A24: code in one kernel gets nowhere in another one, and finds no token", async (t) => {
  const begun = Date.now() / 1000 - 1;
  await using mine = await Siege.begin(true);
  await using other = await Siege.begin(true);
  const step = stepsOf(t);
  await other.executor.execute(`open("private.txt", "w").write("of the other"); secret = 42`);

  await step("not at its files and its generated APIs", async () => {
    const outcomes = await attack(
      mine.executor,
      `
results = {}
other = ${JSON.stringify(other.workspace)}
attempt("file", lambda: open(other + "/private.txt").read())
attempt("list", lambda: os.listdir(other))
attempt("APIs", lambda: os.listdir(other + "/mcptools"))
attempt("state", lambda: open(other + "/.ipybox/mcp.json").read())
attempt("log", lambda: os.listdir("${await stateOf(other.workspace)}"))
attempt("write", lambda: write(other + "/evil.py"))
attempt("link", lambda: (os.symlink(other, "other"), os.listdir("other")))
`,
    );
    for (const [name, outcome] of Object.entries(outcomes)) assertMatch(outcome, DENIED, name);
  });

  await step("not at its processes and ports, and not with its own token", async () => {
    const { port, token } = other.executor.applicationDoor;
    const mark = crypto.randomUUID();
    await other.executor.execute(`child = subprocess.Popen(["sh", "-c", "sleep 1000; : ${mark}"])`);
    const look = `
results = {}
def visible():
    mark = "-".join(${JSON.stringify(mark.split("-"))}).encode() # which this code does not contain
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark in open(f"/proc/{pid}/cmdline", "rb").read():
                return True
        except OSError:
            pass
    return False
attempt("process", visible)
attempt("application", lambda: ask(${port}, "GET", "/servers", token="${token}", wait=2)[0])
`;
    assertEquals((await attack(other.executor, look)).process, "True");
    const outcomes = await attack(mine.executor, look);
    assertEquals(outcomes.process, "False");
    assertMatch(outcomes.application ?? "", /Error$/);
    await other.executor.execute("child.kill()");
    const { result } = await follow(other.executor, "print(secret)", () => {});
    assertEquals(result?.text, "42");
    await mine.checkDecisions(0);
    await other.checkDecisions(0);
  });

  await step("A7: not at a token of the host, which no file that it can read has", async () => {
    const { token } = mine.executor.applicationDoor;
    const digest = new Uint8Array(
      await crypto.subtle.digest("SHA-256", new TextEncoder().encode(token)),
    ).toHex();
    const outcomes = await attack(
      mine.executor,
      `
results = {}
open("found.txt", "w").write(TOKEN) # so this would find the other one
hashes, files = set(), 0
places = ["/tmp", "/var/tmp", "/run", "/dev/shm", "/root", "/home", "/etc", os.getcwd(),
    os.path.expanduser("~"), os.environ.get("PYTHONPATH", "").split(os.pathsep)[0]]
for place in places:
    for folder, _, names in os.walk(place):
        for name in names:
            path = os.path.join(folder, name)
            try:
                if not os.path.isfile(path) or os.path.getsize(path) > 1_000_000:
                    continue
                if os.stat(path).st_ctime < ${begun}: # no file that is older than the token has it
                    continue
                with open(path, "rb") as file:
                    text = file.read(1_000_000)
            except OSError:
                continue
            files += 1
            hashes |= {hashlib.sha256(found).hexdigest()
                for found in re.findall(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])", text)}
results["files"] = repr(files > 10)
results["own token"] = repr(hashlib.sha256(TOKEN.encode()).hexdigest() in hashes)
results["application's token"] = repr("${digest}" in hashes)
`,
    );
    assertEquals(outcomes, {
      files: "True",
      "own token": "True",
      "application's token": "False",
    });
  });
});
