/** Hostile code that speaks in the place of others: of the launcher on the link, and of its kernel. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import type { ApprovalRequest } from "../../src/approval/request.ts";
import { KernelDiedError } from "../../src/base/errors.ts";
import { follow } from "../support/executor.ts";
import { exists } from "../support/files.ts";
import { stepsOf } from "../support/steps.ts";
import { until } from "../support/wait.ts";
import { attack, Siege, TOOLS } from "./siege.ts";

/** Looks for a way onto the link: a descriptor of the launcher, or of what is above it in the sandbox. */
const LINK = `
import struct
def parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
def cmdline(pid):
    return open(f"/proc/{pid}/cmdline", "rb").read()
def holders():
    pid = parent(os.getpid())
    while b"launcher.py" not in cmdline(pid):
        pid = parent(pid)
    found = [pid]
    if SANDBOX:
        while pid > 1:
            pid = parent(pid)
            found.append(pid)
    return found
def pipes():
    for pid in holders():
        try:
            names = os.listdir(f"/proc/{pid}/fd")
        except OSError as error:
            refusals.append(f"{pid} {type(error).__name__}")
            continue
        for name in names:
            try:
                writes = int(open(f"/proc/{pid}/fdinfo/{name}").read().split()[3], 8) & 3 == 1
                if writes and os.readlink(f"/proc/{pid}/fd/{name}").startswith("pipe:"):
                    yield os.open(f"/proc/{pid}/fd/{name}", os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                refusals.append(f"{pid} {name} {type(error).__name__}")
def frame(kind, stream, payload=b""):
    return struct.pack(">BII", kind, stream, len(payload)) + payload
refusals = []
`;

const CALL = `'{"server":"raw","tool":"count","arguments":{}}'`;
const refuse = (request: ApprovalRequest) => request.reject("no");

for (const sandbox of [true, false]) {
  Deno.test(`forged messages ${sandbox ? "in" : "without"} the sandbox`, async (t) => {
    await using siege = await Siege.begin(sandbox);
    const { executor } = siege;
    const step = stepsOf(t);
    await executor.execute(`SANDBOX = ${sandbox ? "True" : "False"}\n${LINK}`);

    await step("on the link are asked about like others", async () => {
      let asked = 0;
      const outcomes = await attack(
        executor,
        `
results = {}
found = list(pipes())
results["pipes"] = repr(len(found))
results["refusals"] = repr(refusals)
for at, pipe in enumerate(found): # a stream of its own
    stream = 1_000_001 + 2 * at
    os.write(pipe, frame(0, stream) + frame(1, stream, request(${CALL})) + frame(2, stream))
while found and not os.path.exists("asked"):
    time.sleep(0.01)
`,
        (request) => {
          asked++;
          Deno.writeTextFileSync(`${siege.workspace}/asked`, "");
          return request.reject("no");
        },
      ).catch((error) => {
        // The launcher does not know the stream that it is given credit for, and gives up.
        assert(error instanceof KernelDiedError, String(error));
        return undefined;
      });
      if (outcomes === undefined) {
        assert(!sandbox && asked <= 1);
      } else { // as it must be in the sandbox, and is for all users but root
        assertEquals([outcomes.pipes, asked], ["0", 0]);
        assertMatch(outcomes.refusals ?? "", /PermissionError/);
      }
      await siege.checkDecisions(0);
    });

    await follow(executor, "1", refuse).catch(() => undefined); // the one that is told that it died

    await step("that break the link end the kernel, and the next one works", async () => {
      await follow(
        executor,
        `${TOOLS}\nSANDBOX = ${sandbox ? "True" : "False"}\n${LINK}
for pipe in pipes():
    os.write(pipe, frame(1, 1, request(${CALL}))) # in a stream of others
    os.write(pipe, frame(1, 2, b"HTTP/1.1 101 Switching Protocols\\r\\n\\r\\n")) # of the gateway
    os.write(pipe, os.urandom(1000))
`,
        refuse,
      ).catch((error) => assert(error instanceof KernelDiedError, String(error)));
      await siege.checkDecisions(0);
      const works = async () => (await follow(executor, "print(6 * 7)", refuse)).result?.text;
      await works().catch(() => undefined); // the one that is told that the link broke
      assertEquals(await works(), "42");
    });

    await step("of its kernel end nothing but its own execution", async () => {
      let asked = 0;
      const decide = (request: ApprovalRequest) => {
        asked++;
        return request.reject("no");
      };
      const attacking = follow(
        executor,
        `${TOOLS}
kernel = get_ipython().kernel
parent, ident = kernel.get_parent("shell"), kernel._parent_ident["shell"]
def forge():
    for content in ({"status": "ok", "execution_count": 1, "payload": [{"source": "set_next_input",
            "text": "import os"}], "user_expressions": {}}, {"status": "approved"}, {}):
        kernel.session.send(kernel.shell_stream, "execute_reply", content, parent, ident=ident)
        for kind in ("status", "approve", "approval", "input_request", "comm_open", "execute_result"):
            kernel.session.send(kernel.iopub_socket, kind, {"execution_state": "idle", **content}, parent)
forge()
open("forged", "w").close()
answer = send(DOOR, request(${CALL}))
open("answer", "w").write(answer)
`,
        decide,
      );
      await attacking.catch(() => undefined); // whatever it made of its own execution
      await until("the call is answered", async () => {
        await follow(executor, "1", decide).catch(() => undefined); // as above
        return await exists(`${siege.workspace}/answer`);
      });
      assert(await Deno.lstat(`${siege.workspace}/forged`).then(() => true));
      assert(asked <= 1);
      await siege.checkDecisions(0);
      const next = await follow(executor, "print(6 * 7)", refuse);
      assertEquals(next.result?.text, "42");
    });
  });
}
