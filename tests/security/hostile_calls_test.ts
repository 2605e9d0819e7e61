/** What hostile code can do to the calls that it may ask for: none runs that nobody allowed. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import type { ApprovalRequest } from "../../src/approval/request.ts";
import { KernelDiedError } from "../../src/base/errors.ts";
import { follow } from "../support/executor.ts";
import { stepsOf } from "../support/steps.ts";
import { rejection, until } from "../support/wait.ts";
import { attack, Siege, TOOLS } from "./siege.ts";

const CALL = `'{"server":"raw","tool":"count","arguments":{}}'`;
const ECHO = `'{"server":"raw","tool":"echo","arguments":{"path":"shown"}}'`;

Deno.test("hostile calls, without a sandbox in their way", async (t) => {
  await using siege = await Siege.begin(false);
  const { executor, workspace } = siege;
  const step = stepsOf(t);
  let allowed = 0;

  await step("with arguments that are no JSON, or too much of it, ask nobody", async () => {
    const outcomes = await attack(
      executor,
      `
results = {}
def run(arguments):
    return outcome(send(DOOR, request('{"server":"raw","tool":"count","arguments":' + arguments + "}")))
for name, arguments in {
    "NaN": '{"a":NaN}', "infinity": '{"a":-Infinity}', "1e400": '{"a":1e400}', "hex": '{"a":0x10}',
    "no object": "[1]", "text": '"{}"', "deep": '{"a":' + "[" * 100_000 + "]" * 100_000 + "}",
    "unclosed": '{"a":1', "after": '{}},{"a":{}', "single quotes": "{'a':1}", "comment": '{/**/}',
}.items():
    attempt(name, lambda: run(arguments))
attempt("no UTF-8", lambda: outcome(send(DOOR, request(b'{"server":"raw","tool":"count","arguments":{"a":"\\xff"}}'))))
attempt("two servers", lambda: outcome(send(DOOR, request('{"server":"raw","server":["raw"],"tool":"count","arguments":{}}'))))
attempt("declared 1 GB", lambda: outcome(send(DOOR, request("", size=1_000_000_000))))
attempt("another behind it", lambda: outcome(send(DOOR, request(${CALL}) + request(${CALL}))))
attempt("a part of it is another", lambda: outcome(send(DOOR, request("0\\n" + ${CALL}, size=2))))
`,
      () => assert(false, "It was asked about"),
    );
    for (const [name, outcome] of Object.entries(outcomes)) {
      assertMatch(outcome, /^'refused: /, name);
    }
    assertMatch(outcomes["declared 1 GB"] ?? "", /exceeds \d+ bytes/);
    assertMatch(outcomes["another behind it"] ?? "", /Wait for the answer/);
    await siege.checkDecisions(allowed);
  });

  await step("that are too large to be shown are asked of nobody", async () => {
    const seen: number[] = [];
    await attack(
      executor,
      `
results = {}
big = json.dumps({"a": "x" * 20_000_000, "b": {"c": [[[[1]]]]}})
attempt("big", lambda: outcome(send(DOOR, request('{"server":"raw","tool":"count","arguments":' + big + "}"))))
`,
      (request) => {
        seen.push(request.argumentsJson.length);
        return request.reject();
      },
    );
    assertEquals(seen, []);
    await siege.checkDecisions(allowed);
  });

  await step("by a patched runtime are asked about like others", async () => {
    let asked = 0;
    const { result } = await follow(
      executor,
      `
import ipybox_runtime, ipybox_runtime.errors, ipybox_runtime.session, ipybox_runtime.tool_runner
for module in [m for name, m in list(sys.modules.items()) if name.startswith("ipybox_runtime")]:
    for name, value in list(vars(module).items()):
        if isinstance(value, type) and issubclass(value, Exception):
            value.__init__ = lambda self, *args, **kwargs: None
        elif callable(value) and "approv" in name.lower():
            setattr(module, name, lambda *args, **kwargs: {"approved": True})
from ipybox_runtime import ToolRunner
try:
    ToolRunner("raw").run_sync("count", {})
    print("it ran")
except BaseException as error:
    print("refused")
`,
      (request) => {
        asked++;
        return request.reject();
      },
    );
    assertEquals([asked, result?.text], [1, "refused"]);
    await siege.checkDecisions(allowed);
  });

  await step("that are replayed are asked about again, each for itself", async () => {
    const ids: string[] = [];
    const outcomes = await attack(
      executor,
      `
results = {}
same = request(${CALL})
attempt("first", lambda: send(DOOR, same))
attempt("again", lambda: send(DOOR, same))
for name in ("id", "call_id", "approval_id", "approved", "decision"):
    attempt(name, lambda: call("run", {"server": "raw", "tool": "count", "arguments": {}, name: "known"}))
    attempt(name + " in the first line", lambda: outcome(send(DOOR, request(${CALL}, **{name: "known"}))))
for path in ("approve/known", "run/known", "approval", "answer"):
    attempt(path, lambda: call(path, {"id": "known", "result": True}))
`.replaceAll("known", "00000000-0000-4000-8000-000000000000"),
      (request) => {
        ids.push(request.id);
        return ids.length === 1 ? request.accept() : request.reject();
      },
    );
    allowed++;
    assertEquals(new Set(ids).size, 2);
    const { first = "", again = "", ...others } = outcomes;
    assertMatch(first, /"text":"1"/);
    assertMatch(again, /approval_rejected/);
    for (const [name, outcome] of Object.entries(others)) {
      assertMatch(outcome, /^'refused: /, name);
    }
    await siege.checkDecisions(allowed);
  });

  await step("that are changed after they were shown run as they were shown", async () => {
    const shown: ApprovalRequest[] = [];
    const { more = "" } = await attack(
      executor,
      `
results = {}
def both():
    with socket.create_connection(("127.0.0.1", int(DOOR)), 30) as connection:
        answer = b""
        for text in (${ECHO}, ${CALL}):  # the second one on what was allowed before
            connection.sendall(request(text))
            answer += connection.recv(65536)
            while not answer.endswith(b"\\n"):
                answer += connection.recv(65536)
        return answer.decode()
attempt("more", both)
`,
      (request) => {
        shown.push(request);
        if (request.toolName === "count") return request.reject("not shown");
        for (const change of [{ path: "changed" }, { path: "x", more: 1 }]) {
          try {
            Object.assign(request.toolArgs, change);
          } catch {
            // frozen, as it should be
          }
        }
        return request.accept();
      },
    );
    allowed++;
    assertEquals(shown.map((request) => `${request}`), ["raw.echo(path='shown')", "raw.count()"]);
    assertMatch(more, /shown.*not shown/s);
    assertEquals(more.includes("changed"), false);
    await siege.checkDecisions(allowed);
  });

  await step(
    "that others are sent after, before the answer, do not run, nor do these",
    async () => {
      const shown: ApprovalRequest[] = [];
      const { both = "" } = await attack(
        executor,
        `
results = {}
def once_asked():
    while not os.path.exists("asked"):
        time.sleep(0.01)
    return request(${CALL})  # in the place of what is shown, on the same connection
attempt("both", lambda: send(DOOR, request(${ECHO}), once_asked, wait=30))
`,
        (request) => {
          shown.push(request);
          Deno.writeTextFileSync(`${workspace}/asked`, ""); // and no answer: it is withdrawn
        },
      );
      assertMatch(both, /"refused":"Wait for the answer/);
      assertEquals(shown.map((request) => `${request}`), ["raw.echo(path='shown')"]);
      assertEquals(await shown[0]?.accept(), false);
      await siege.checkDecisions(allowed);
    },
  );

  await step(
    "by threads between executions are refused, and asked about in the next one",
    async () => {
      const reject = (request: ApprovalRequest) => request.reject("later");
      await follow(
        executor,
        `
answers = []
def keep_calling():
    while len(answers) < 1000 and not os.path.exists("enough"):
        try:
            answers.append(send(DOOR, request(${CALL})))
        except OSError:
            pass
        time.sleep(0.01)
thread = threading.Thread(target=keep_calling, daemon=True)
thread.start()
`,
        reject,
      );
      const runner = async () => {
        const { result } = await follow(
          executor,
          "print(len(answers))",
          reject,
        );
        return Number(result?.text ?? 0);
      };
      const before = await runner();
      await until("the thread calls", async () => await runner() > before + 3);
      await Deno.writeTextFile(`${workspace}/enough`, "");
      const outcomes = await attack(
        executor,
        `
results = {}
thread.join(30)
results["kinds"] = repr(sorted({json.loads(text)["error"]["type"] for text in answers if "error" in text}))
results["ran"] = repr([text for text in answers if '"result"' in text])
`,
        (request) => request.reject("later"),
      );
      assertMatch(outcomes.kinds ?? "", /approval_unavailable/);
      assertEquals(outcomes.ran, "[]");
      await siege.checkDecisions(allowed);
    },
  );

  await step("by a kernel that dies are withdrawn, and cannot be approved any more", async () => {
    const asked = Promise.withResolvers<ApprovalRequest>();
    const dying = rejection(follow(
      executor,
      `
threading.Thread(target=lambda: send(DOOR, request(${CALL})), daemon=True).start()
while not os.path.exists("die"):
    time.sleep(0.01)
os.kill(os.getpid(), 9)
`,
      (request) => {
        asked.resolve(request);
        Deno.writeTextFileSync(`${workspace}/die`, "");
      },
    ));
    const request = await asked.promise;
    const error = await dying;
    assert(error instanceof KernelDiedError, String(error));
    await request.response;
    assert(request.signal.aborted);
    assertEquals(await request.accept(), false);
    await siege.checkDecisions(allowed);
  });

  await step("by a process that was to outlive its kernel end with it", async () => {
    const answers = `${workspace}/answers`;
    await Deno.writeTextFile(
      `${workspace}/outlive.py`,
      `${TOOLS}
while not os.path.exists("stop"):
    try:
        answer = send(DOOR, request(${CALL}))
    except OSError:
        break # the sandbox has ended
    write_answer = open("answers", "a").write(answer)
`,
    );
    const refuse = (request: ApprovalRequest) => request.reject("no");
    await rejection(follow(
      executor,
      `${TOOLS}
child = subprocess.Popen([sys.executable, "outlive.py"], start_new_session=True)
while not os.path.exists("answers"):
    time.sleep(0.01)
os.kill(os.getpid(), 9)
`,
      refuse,
    ));
    // Once the next kernel runs, nothing is left of the old one that could go on asking.
    const count = async () => (await Deno.readTextFile(answers)).split("\n").length;
    await follow(executor, "1", refuse);
    const before = await count();
    for (let n = 0; n < 5; n++) await follow(executor, "import time; time.sleep(0.05)", refuse);
    assertEquals(await count(), before);
    await Deno.writeTextFile(`${workspace}/stop`, "");
    assertEquals(/"result"/.test(await Deno.readTextFile(answers)), false);
    await siege.checkDecisions(allowed);
  });
});
