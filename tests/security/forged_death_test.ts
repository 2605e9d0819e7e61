/** Code that says that its kernel has died, to outlive it. */
import { assert, assertEquals, assertInstanceOf, assertMatch } from "@std/assert";
import { KernelDiedError } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import { ToolServer } from "../../src/calls/tool_server.ts";
import { follow, TestExecutor } from "../support/executor.ts";
import { rawServer } from "../support/mcp.ts";
import { processesWith } from "../support/processes.ts";
import { stepsOf } from "../support/steps.ts";
import { callDoor } from "../support/door.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { rejection, until } from "../support/wait.ts";

/** Says so as the gateway does, and leaves its number: what has that later would be the kernel. */
const FORGE = `
import os, time
open("old", "w").write(os.readlink("/proc/self"))
kernel = get_ipython().kernel
def forge(state):
    kernel.session.send(kernel.iopub_socket, "status",
        {"execution_state": state, "returncode": -9, "oom_killer": True}, parent={}, ident=b"x")
`;
const IS_THERE = `import os; print(os.path.exists("/proc/" + open("old").read()))`;

/** Whether the kernel's token and that of one before are taken. */
const ASK = `
import json, os, socket
def opens(token):
    port = int(os.environ["IPYBOX_TOOL_URL"].rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(json.dumps({"token": token, "call": "run", "size": 2}).encode() + b"\\n{}")
        return b"Wrong token" not in connection.recv(10_000)
own = os.environ["IPYBOX_TOOL_TOKEN"]
before = open("token").read() if os.path.exists("token") else own
print(opens(own), opens(before), own == before)
_ = open("token", "w").write(own)`;

/** Ends kernels by a reset and by a death, and tries the tokens of those before. */
async function showTokenEnds({ executor }: TestExecutor): Promise<void> {
  assertEquals((await executor.execute(ASK)).text?.trim(), "True True True");
  await executor.execute("import time; time.sleep(2)"); // the spare kernel is there
  await executor.reset();
  assertEquals((await executor.execute(ASK)).text?.trim(), "True False False");
  await rejection(executor.execute("import os; os._exit(1)"));
  assertEquals((await executor.execute(ASK)).text?.trim(), "True False False");
}

/** Has kernels say that they have died, and looks for them. */
async function showForged({ executor }: TestExecutor, state: string): Promise<void> {
  for (const waits of [0, 2]) { // one that lives for less than a second is replaced later
    const attack = `${FORGE}\ntime.sleep(${waits})\nforge("${state}")\ntime.sleep(60)`;
    const error = await rejection(executor.execute(attack));
    assertInstanceOf(error, KernelDiedError);
    assertMatch(error.message, /it was reported dead, but was still running/);
    assertEquals([error.signal, error.exitCode], [null, null]);
    assertEquals((await executor.execute(IS_THERE)).text?.trim(), "False");
    await rejection(executor.execute(attack));
    await executor.reset();
    assertEquals((await executor.execute(IS_THERE)).text?.trim(), "False");
  }
}

Deno.test("kernels whose code says that they have died end, with a spare kernel", async (t) => {
  const step = stepsOf(t);
  await using test = await TestExecutor.start({ spareKernel: true });

  await step("the token of a kernel's tool calls ends with the kernel", async () => {
    await showTokenEnds(test);
  });

  await step("a kernel whose code says that it is dead ends", async () => {
    await showForged(test, "dead");
  });
});

Deno.test("kernels whose code says that they have died end, without a spare kernel", async (t) => {
  const step = stepsOf(t);
  await using home = await TempFolder.create();
  const journal = `${home.path}/journal`;
  await using test = await TestExecutor.start({ servers: { raw: rawServer("normal", journal) } });
  const { executor, workspace } = test;

  await step("the token of a kernel's tool calls ends with the kernel", async () => {
    await showTokenEnds(test);
  });

  await step("a kernel whose code says that it is restarting ends", async () => {
    await showForged(test, "restarting");
  });

  await step("one that says that it is dead, and then dies, leaves no process behind", async () => {
    const script = `while :; do sleep 1; : ${workspace}; done`;
    for (const waits of ["0", "0.02", "0.1"]) {
      const attack = executor.execute(`${FORGE}
import subprocess
subprocess.Popen(["setsid", "-f", "sh", "-c", ${JSON.stringify(script)}])
while not any(${JSON.stringify(workspace)}.encode() in open(f"/proc/{pid}/cmdline", "rb").read()
              for pid in filter(str.isdigit, os.listdir("/proc")) if os.path.exists(f"/proc/{pid}")):
    time.sleep(0.01)
forge("dead")
time.sleep(${waits})
os._exit(0)
`);
      assertInstanceOf(await rejection(attack), KernelDiedError);
      assertEquals((await executor.execute("print(1)")).text?.trim(), "1");
      assertEquals(await processesWith(`: ${workspace}; done`), []);
    }
  });

  await step("code that was refused a call does not make it after a reset", async () => {
    let asked = 0;
    const attack = follow(
      executor,
      `${FORGE}
import threading
from ipybox_runtime import ToolRunner
def call():
    while True:
        try: ToolRunner("raw").run_sync("count")
        except Exception: time.sleep(0.05)
threading.Thread(target=call).start()
while not os.path.exists("asked"): time.sleep(0.01)
forge("dead")
time.sleep(60)`,
      (request) => {
        asked++;
        Deno.writeTextFileSync(`${workspace}/asked`, "");
        request.reject("no");
      },
    );
    assertInstanceOf(await rejection(attack), KernelDiedError);
    await executor.reset();
    await executor.execute("import time; time.sleep(1.5)"); // which accepts all calls
    const calls = await Deno.readTextFile(journal).catch(() => "");
    assert(asked > 0 && !calls.includes("tools/call"), `${asked} ${calls}`);
  });

  await step(
    "code that was cancelled does not call in its last moments, as another one is accepted",
    async () => {
      let asked = 0;
      const stubborn = follow(
        executor,
        `
import signal, threading, time
from ipybox_runtime import ToolRunner
for name in (signal.SIGINT, signal.SIGTERM): signal.signal(name, signal.SIG_IGN)
get_ipython().kernel.control_thread.io_loop.add_callback(time.sleep, 60) # hears of no shutdown
def call():
    while True:
        try: ToolRunner("raw").run_sync("count")
        except Exception: time.sleep(0.02)
for _ in range(4): threading.Thread(target=call).start()
while True: time.sleep(1)`,
        (request) => {
          asked++;
          request.reject("no");
        },
      );
      await until("it asks", () => asked > 0);
      assertEquals(await executor.cancel(), "lost");
      await stubborn;
      await executor.execute("import time; time.sleep(1)"); // which accepts all calls
      assertEquals(
        (await Deno.readTextFile(journal).catch(() => "")).includes("tools/call"),
        false,
      );
    },
  );
});

Deno.test("a call that is under way ends when its kernel's token does", async () => {
  await using home = await TempFolder.create();
  const journal = `${home.path}/journal`;
  await using server = await ToolServer.start({
    servers: { raw: rawServer("normal", journal) },
    approval: "allow",
    log: silentLogger,
  });
  const { token } = server.kernelDoor;
  const call = (token: string, tool: string) => {
    const body = JSON.stringify({ server: "raw", tool, arguments: { ms: 60_000 } });
    return callDoor(server.kernelDoor, "run", body, { token });
  };
  const hanging = call(token, "sleep");
  const told = (what: string) =>
    until(`the server is told: ${what}`, async () => {
      return (await Deno.readTextFile(journal).catch(() => "")).includes(what);
    });
  await told("tools/call");
  const fresh = server.renewKernelToken();
  assertEquals(await hanging, undefined);
  await told("notifications/cancelled");
  assertEquals(await call(token, "count"), { refused: "Wrong token" });
  assertEquals(Object.keys(await call(fresh, "count") ?? {}), ["response"]);
});
