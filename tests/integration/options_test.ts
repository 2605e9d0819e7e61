import { assertEquals } from "@std/assert";
import { fileURLToPath } from "node:url";
import { CodeExecutor } from "../../src/executor/code_executor.ts";
import type { CodeExecutorOptions } from "../../src/executor/options.ts";
import { McpServer } from "../../src/mcp_server/mcp_server.ts";
import { TestExecutor } from "../support/executor.ts";
import { runProgram } from "../support/program.ts";
import { stepsOf } from "../support/steps.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { rejection } from "../support/wait.ts";

/** Options as a program without types can pass them. */
function untyped(options: object): Record<string, never> {
  return options as Record<string, never>;
}

const STARTS: readonly (readonly [given: object, said: string])[] = [
  [
    { aproval: "deny" },
    'Unknown key "aproval" in the options of CodeExecutor.start(): did you mean "approval"?',
  ],
  [
    { workspce: "." },
    'Unknown key "workspce" in the options of CodeExecutor.start(): did you mean "workspace"?',
  ],
  [
    { approval: { tool: "ask" } },
    'Unknown key "tool" in the option "approval": did you mean "tools"?',
  ],
  [
    { limits: { memory: 2 ** 30 } },
    'Unknown key "memory" in the option "limits": did you mean "memoryBytes"?',
  ],
  [{ sandbox: { conf: {} } }, 'Unknown key "conf" in the option "sandbox": did you mean "config"?'],
  [{ durable: { idle: 1 } }, 'Unknown key "idle" in the option "durable": did you mean "idleMs"?'],
  [
    { login: { open: () => {} } },
    'Unknown key "open" in the option "login": use "show", "anew", "timeoutMs"',
  ],
];

Deno.test("CodeExecutor.start() names an option that it does not know, before anything starts", async (t) => {
  await using folder = await TempFolder.create();
  const step = stepsOf(t);
  for (const [given, said] of STARTS) {
    await step(JSON.stringify(given), async () => {
      const options: CodeExecutorOptions = { workspace: folder.path, ...untyped(given) };
      const error = await rejection(CodeExecutor.start(options));
      assertEquals(`${error}`, `TypeError: ${said}`);
    });
  }
});

Deno.test("McpServer names an option that it does not know, before anything starts", async (t) => {
  await using folder = await TempFolder.create();
  const step = stepsOf(t);
  const http = (given: object) => async () =>
    await McpServer.serveHttp({ workspace: folder.path, ...untyped(given) });
  const refused: readonly (readonly [call: () => Promise<unknown>, said: string])[] = [
    [
      async () => await McpServer.serveStdio(untyped({ aprove: "deny" })).closed,
      'Unknown key "aprove" in the options of McpServer.serveStdio(): did you mean "approve"?',
    ],
    [
      async () => await McpServer.serveStdio(untyped({ maxSessions: 1 })).closed,
      'Unknown key "maxSessions" in the options of McpServer.serveStdio(): did you mean "maxOutputBytes"?',
    ],
    [
      http({ approval: "deny" }),
      'Unknown key "approval" in the options of McpServer.serveHttp(): did you mean "approve"?',
    ],
    [
      http({ sandbox: { conf: {} } }),
      'Unknown key "conf" in the option "sandbox": did you mean "config"?',
    ],
    [
      http({ pool: { sizes: 1 } }),
      'Unknown key "sizes" in the option "pool": did you mean "size"?',
    ],
    [
      http({ tokens: [{ token: "0123456789abcdef", placment: { type: "docker" } }] }),
      'Unknown key "placment" in an entry of the option "tokens": did you mean "placement"?',
    ],
  ];
  for (const [call, said] of refused) {
    await step(said, async () => {
      const error = await rejection(call());
      assertEquals(`${error}`, `TypeError: ${said}`);
    });
  }
});

Deno.test("CodeExecutor.attach() names an option that only the start of the session takes", async () => {
  const error = await rejection(CodeExecutor.attach("0".repeat(12), untyped({ limits: false })));
  assertEquals(
    `${error}`,
    'TypeError: CodeExecutor.attach() does not take "limits": the session keeps what it was started with',
  );
});

Deno.test("The methods of CodeExecutor name options that they do not know", async (t) => {
  await using test = await TestExecutor.start({ check: "off" });
  const { executor } = test;
  const step = stepsOf(t);
  const refused: readonly (readonly [call: () => Promise<unknown>, said: string])[] = [
    [
      () => executor.execute("1", untyped({ timeout: 5 })),
      'Unknown key "timeout" in the options of execute(): did you mean "timeoutMs"?',
    ],
    [
      () => executor.execute("1", untyped({ events: ["chunk"] })),
      'Unknown key "events" in the options of execute(): use "timeoutMs", "signal", "approve"',
    ],
    [
      () => executor.stream("1", untyped({ event: ["chunk"] })).next(),
      'Unknown key "event" in the options of stream(): did you mean "events"?',
    ],
    [
      () => executor.stream("1", untyped({ events: ["chunks"] })).next(),
      'Unknown type "chunks" in the option "events": did you mean "chunk"?',
    ],
    [
      () => executor.resume(untyped({ chunks: true })).next(),
      'Unknown key "chunks" in the options of resume(): use "timeoutMs", "events", "signal"',
    ],
    [
      () => executor.installPackages("x", untyped({ onLines() {} })),
      'Unknown key "onLines" in the options of installPackages(): did you mean "onLine"?',
    ],
    [
      () => executor.registerServer("x", { command: "x" }, untyped({ signals: 1 })),
      'Unknown key "signals" in the options of registerServer(): did you mean "signal"?',
    ],
  ];
  for (const [call, said] of refused) {
    await step(said, async () => {
      const error = await rejection(call());
      assertEquals(`${error}`, `TypeError: ${said}`);
    });
  }
  await step("the executor still runs code", async () => {
    assertEquals((await executor.execute("6 * 7")).text, "42");
  });
});

Deno.test("a program that ends with executors that were not disposed is told so once", async () => {
  await using folder = await TempFolder.create();
  const root = new URL("../../", import.meta.url);
  const program = `
    const { CodeExecutor } = await import(${JSON.stringify(new URL("mod.ts", root).href)});
    const options = { workspace: ${JSON.stringify(folder.path)}, check: "off" };
    for (let n = 0; n < 2; n++) await CodeExecutor.start(options);
    { await using _disposed = await CodeExecutor.start(options); }
    Deno.exit(3);`;
  const args = [
    "eval",
    "--quiet",
    `--config=${fileURLToPath(new URL("deno.json", root))}`,
    program,
  ];
  const { code, stderr } = await runProgram(Deno.execPath(), args);
  assertEquals(code, 3, stderr);
  assertEquals(
    stderr,
    "ipybox: warning: The program ends with 2 CodeExecutors that were not disposed, so temporary " +
      "folders stay: use `await using`, or call `[Symbol.asyncDispose]()`\n",
  );
});

/** What `deno doc --json` says of a symbol, as far as this is about it. */
interface Documented {
  readonly name: string;
  readonly declarations: readonly {
    readonly def?: { readonly extends?: unknown[]; readonly properties?: { name: string }[] };
  }[];
}

Deno.test("mod.ts documents all options of CodeExecutor.start() on one page, and nothing internal", async () => {
  const root = fileURLToPath(new URL("../../", import.meta.url));
  const args = ["doc", "--json", "mod.ts"];
  const { stdout } = await runProgram(Deno.execPath(), args, { cwd: root });
  assertEquals(stdout.match(/"kind": ?"internal"/g), null);
  const { nodes } = JSON.parse(stdout);
  const symbols: Documented[] = Object.values<{ symbols: Documented[] }>(nodes)
    .flatMap(({ symbols }) => symbols);
  const found = symbols.find(({ name }) => name === "CodeExecutorOptions");
  const { extends: bases, properties = [] } = found?.declarations[0]?.def ?? {};
  assertEquals(bases ?? [], []);
  const names = properties.map(({ name }) => name);
  for (const name of ["servers", "approval", "sandbox", "limits", "placement", "kernelEnv"]) {
    assertEquals(names.includes(name), true, name);
  }
});
