import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { lockBuilds } from "../../src/python/build.ts";
import { kernelRecipe, writeMarker } from "../../src/python/managed.ts";
import { ServerRegistry } from "../../src/servers/registry.ts";
import { until } from "../support/wait.ts";
import { CLIENT_ERAS, McpHost, type Progress } from "../support/mcp_client.ts";
import { rawServer } from "../support/mcp.ts";
import { RAW, workspaceWithServer } from "../support/mcp_workspace.ts";
import { processesWith, untilNoneWith } from "../support/processes.ts";
import { testInterpreter, testPython } from "../support/python.ts";
import { stepsOf } from "../support/steps.ts";
import { TempCache } from "../support/temp_cache.ts";

for (const kind of CLIENT_ERAS) {
  Deno.test(`ipybox mcp tells a client of the kind ${kind} what its cell does`, async (t) => {
    await using workspace = await workspaceWithServer();
    const registry = await ServerRegistry.open({ workspace: workspace.path });
    const { command, args = [] } = rawServer();
    const wait = `while [ ! -e ${workspace.path}/go ]; do sleep 0.05; done; exec "$0" "$@"`;
    await registry.register("slow", { command: "sh", args: ["-c", wait, command, ...args] });
    await using host = await McpHost.start({
      kind,
      args: [
        ...["--workspace", workspace.path, "--approve", "allow"],
        ...kind === "2.x legacy" ? [] : ["--no-sandbox"],
      ],
    });
    const step = stepsOf(t);

    await step("by its last line of output, and the call under way", async () => {
      const told: Progress[] = [];
      const onProgress = (progress: Progress) => told.push(progress);
      // Each step ends when the client has been told of it.
      const cell = host.call("execute_ipython_cell", {
        code: `${RAW}
import pathlib, time
def wait(name):
    while not pathlib.Path(name).exists(): time.sleep(0.02)
print("first\\nsecond\\u202e", flush=True)
wait("one")
raw.run_sync("sleep", {"ms": 1500})`,
      }, { onProgress });
      const said = (words: string) => () => told.some(({ message }) => message === words);
      await until("the line was told", said("second\\u202e"));
      await Deno.writeTextFile(`${workspace.path}/one`, "");
      await until("the call was told", said("Calling raw.sleep"));
      assertEquals((await cell).isError, false);
      const numbers = told.map(({ progress }) => progress);
      assertEquals(numbers, [...numbers].sort((a, b) => a - b));
      assertEquals(new Set(numbers).size, numbers.length);
    });

    await step("that it waits for the cell before, and what that one does", async () => {
      const waiting = Promise.withResolvers<void>();
      const first = host.call("execute_ipython_cell", {
        code: "print('one', flush=True)\nwait('two')",
      });
      const second = host.call("execute_ipython_cell", { code: "2" }, {
        onProgress: ({ message }) => {
          if (message === "Waiting for another cell: one") waiting.resolve();
        },
      });
      await waiting.promise;
      await Deno.writeTextFile(`${workspace.path}/two`, "");
      assertEquals([(await first).text, (await second).text], ["one", "2"]);
    });

    await step("that its call waits for the start of a server", async () => {
      const told: string[] = [];
      const cell = host.call("execute_ipython_cell", {
        code: "from ipybox_runtime import ToolRunner\nToolRunner('slow').run_sync('count').text",
      }, { onProgress: ({ message = "" }) => told.push(message) });
      const words = 'MCP server "slow" is starting for slow.count';
      await until("the start was told", () => told.includes(words));
      await Deno.writeTextFile(`${workspace.path}/go`, "");
      assertEquals((await cell).text, "'1'");
    });

    await step("not more often than a person reads", async () => {
      const told: Progress[] = [];
      const start = performance.now();
      await host.call("execute_ipython_cell", {
        code: "import time\nfor i in range(1000): print(i, flush=True); time.sleep(0.001)",
      }, { onProgress: (progress) => told.push(progress) });
      const seconds = (performance.now() - start) / 1000;
      assert(told.length >= 1 && told.length <= seconds * 4 + 1, `${told.length} in ${seconds} s`);
    });

    await step("and a cancelled call interrupts it and its tool calls", async () => {
      await host.execute("b = 1");
      const cancel = new AbortController();
      const calling = Promise.withResolvers<void>();
      const call = host.call("execute_ipython_cell", {
        code: `${RAW}raw.run_sync("sleep", {"ms": 3_600_000})`,
      }, {
        signal: cancel.signal,
        onProgress: ({ message }) => {
          if (message === "Calling raw.sleep") calling.resolve();
        },
      });
      await calling.promise;
      cancel.abort(new Error("the user pressed Escape"));
      await assertRejects(() => call);
      assertEquals(await host.execute("b"), "1");
    });

    await step("and with it the processes that it started", async () => {
      const mark = `mark-${crypto.randomUUID()}`;
      const cancel = new AbortController();
      const call = host.call("execute_ipython_cell", {
        code: `import subprocess\nsubprocess.run(["sh", "-c", "sleep 1000; : ${mark}"])`,
      }, { signal: cancel.signal });
      await until("the cell has begun", async () => (await processesWith(mark)).length > 0);
      cancel.abort(new Error("the user pressed Escape"));
      await assertRejects(() => call);
      assertEquals(await host.execute("b"), "1");
      await untilNoneWith(mark);
    });
  });

  Deno.test(`ipybox mcp waits for the user of a client of the kind ${kind}`, async (t) => {
    await using workspace = await workspaceWithServer();
    let answer: () => Promise<string>;
    await using host = await McpHost.start({
      kind,
      args: ["--workspace", workspace.path, "--no-sandbox"],
      answer: () => answer(),
    });
    const step = stepsOf(t);

    if (kind === "2.x legacy") { // in the newer era, the client itself asks
      await step("and tells that it does", async () => {
        const told: Progress[] = [];
        answer = async () => {
          const seen = told.length;
          const waits = ({ message = "" }: Progress) => /^Waiting for the user/.test(message);
          await until("it was told", () => told.slice(seen).some(waits));
          return "allow once";
        };

        const { text } = await host.call("execute_ipython_cell", {
          code:
            `${RAW}raw.run_sync("count")\nprint("between", flush=True)\nraw.run_sync("count").text`,
        }, { onProgress: (progress) => told.push(progress) });

        assertEquals(text, "between\n'2'");
        const numbers = told.map(({ progress }) => progress);
        assertEquals(new Set(numbers).size, numbers.length);
        assertEquals(numbers, [...numbers].sort((a, b) => a - b));
      });
    } else {
      await step("which is left out of the time limit", async () => {
        let seconds = 0;
        answer = async () => {
          await host.resources(); // the connection stays usable meanwhile
          await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
          return "allow once";
        };
        const code = `${RAW}print(raw.run_sync("count").text)`;
        await host.execute(code); // starts the server, whose time counts

        seconds = 3;
        const { isError, text } = await host.call("execute_ipython_cell", {
          code,
          timeout: seconds,
        });

        assertEquals(isError, false, text);
        assertStringIncludes(text, "2");
      });
    }

    const abandon = async (code: string) => {
      const cancel = new AbortController();
      answer = () => {
        cancel.abort(new Error("the user pressed Escape"));
        // The client neither answers nor asks again.
        return Promise.reject(new Error("the form was closed"));
      };
      await assertRejects(() =>
        host.call("execute_ipython_cell", { code }, { signal: cancel.signal })
      );
    };

    await step("and asks for the same cell again when the question is given up", async () => {
      const code = `${RAW}raw.run_sync("count")`;
      await abandon(code);
      await abandon(code);
    });

    await step("and resets then", async () => {
      await abandon(`${RAW}raw.run_sync("count")`);
      assertEquals((await host.call("reset")).isError, false);
      assertEquals(await host.execute("1 + 1"), "2");
    });
  });
}

Deno.test("ipybox mcp tells its client what it waits for from the beginning", async (t) => {
  await using workspace = await workspaceWithServer();
  /** Calls a cell, and gives up once the client was told what was to be told. */
  const told = async (words: RegExp, env: Record<string, string>) => {
    await using host = await McpHost.start({ args: ["--workspace", workspace.path], env });
    const messages: string[] = [];
    const cancel = new AbortController();
    const cell = host.call("execute_ipython_cell", { code: "1+1" }, {
      signal: cancel.signal,
      onProgress: ({ message = "" }) => {
        messages.push(message);
        if (words.test(message)) cancel.abort(new Error("that is enough"));
      },
    });
    await assertRejects(() => cell, Error, "that is enough", messages.join("\n"));
  };

  await t.step("the start of the kernel", async () => {
    await using slow = await slowPython();
    await told(/^Starting the kernel/, { IPYBOX_PYTHON: "", ...slow.env });
  });

  await t.step("the set-up of Python", async () => {
    await using cache = await TempCache.create();
    using _build = await lockBuilds(await cache.pythons(), {}); // by another process, so that nothing is built here
    await told(/^Setting up Python: ./, { IPYBOX_PYTHON: "", ...cache.env });
  });
});

/** A cache whose Python takes a second longer to start, so that there is something to tell. */
async function slowPython(): Promise<TempCache> {
  const cache = await TempCache.create();
  const executable = `${cache.path}/python`;
  await Deno.writeTextFile(executable, `#!/bin/sh\nsleep 1\nexec ${testPython()} "$@"\n`, {
    mode: 0o755,
  });
  const interpreter = { ...await testInterpreter(), executable };
  await writeMarker(kernelRecipe(), await cache.pythons(), interpreter);
  return cache;
}
