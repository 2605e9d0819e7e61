import { assert, assertEquals, assertMatch } from "@std/assert";
import { dirname, join } from "node:path";
import type { LogLevel } from "../base/log.ts";
import type { ByteStream } from "../base/streams.ts";
import { ManagedProcess } from "../process/managed_process.ts";
import { programOf } from "../process/program.ts";
import { testPython } from "../../tests/support/python.ts";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { CodeChecker } from "./checker.ts";

const TOOL = {
  name: "create",
  inputSchema: { type: "object", properties: { title: { type: "string" } }, required: ["title"] },
};

/** A cell, which any kernel sees like that. */
const WRONG = "from mcptools.gh import create\ncreate(titel='a')\n";
const LOOK = {
  file: null,
  text: WRONG,
  dynamic: false,
  imports: ["from mcptools.gh import create"],
  bound: ["create"],
  written: [],
  undefined: [],
  tools: [["gh", "create"]],
  guarded: [],
  loose: [],
  calls: [1, 0],
  keywords: [{ range: [1, 0, 1, 17], given: [["titel", []]] }],
};

/** A checker of cells with a program in place of ty. */
class Bench implements AsyncDisposable {
  readonly checker: CodeChecker;
  readonly started: ManagedProcess[] = [];
  readonly said: string[] = [];
  readonly #folder: TempFolder;

  private constructor(folder: TempFolder, start: (() => ManagedProcess) | undefined) {
    this.#folder = folder;
    const log = (level: LogLevel) => (text: string) => void this.said.push(`${level} ${text}`);
    this.checker = new CodeChecker({
      mcptools: join(folder.path, "mcptools"),
      log: { debug: log("debug"), info: log("info"), warn: log("warn"), error: log("error") },
      kernel: {
        inspect: () => Promise.resolve(JSON.stringify(LOOK)),
        openChecker: () => {
          if (start === undefined) return undefined;
          const process = start();
          this.started.push(process);
          const stream: ByteStream = process.pipes;
          stream.closed.then(() => void process.stop());
          return { stream, stubs: Deno.makeTempDirSync({ dir: folder.path }) };
        },
      },
    });
  }

  static async start(command?: string, ...args: string[]): Promise<Bench> {
    const folder = await TempFolder.create();
    const gh = join(folder.path, "mcptools", "gh");
    await Deno.mkdir(gh, { recursive: true });
    await Deno.writeTextFile(join(gh, "schema.json"), JSON.stringify({ tools: [TOOL] }));
    const program = command === undefined ? undefined : await programOf(command);
    const spawn = () =>
      ManagedProcess.spawn({ command: program!, args, env: {}, inputGraceMs: 0, termGraceMs: 0 });
    return new Bench(folder, program && spawn);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.checker[Symbol.dispose]();
    for (const process of this.started) await process[Symbol.asyncDispose]();
    await this.#folder[Symbol.asyncDispose]();
  }
}

const never = new AbortController().signal;

const BROKEN: Readonly<Record<string, string>> = {
  "ends at once": "exit 3",
  "says nothing": "sleep 1000",
  "writes garbage": "cat /dev/zero",
  "promises too much": "printf 'Content-Length: 99999999\\r\\n\\r\\n'; sleep 1000",
  "writes what is not JSON": "printf 'Content-Length: 3\\r\\n\\r\\n{x}'; sleep 1000",
  "answers what nobody asked": 'printf \'Content-Length: 17\\r\\n\\r\\n{"id":77,"x":[1]}\'; exit 0',
};

for (const [what, script] of Object.entries(BROKEN)) {
  Deno.test(`CodeChecker lets code run unchecked where the type checker ${what}`, async () => {
    await using bench = await Bench.start("/bin/sh", "-c", script);
    for (let cell = 0; cell < 5; cell++) {
      const report = await bench.checker.check(WRONG, never);
      assertEquals([report.problems, report.isComplete], [[], false]);
      bench.checker.ended("well");
    }
    assert(bench.started.length <= 3, `${bench.started.length} were started`);
    assertMatch(bench.said.join("\n"), /debug A cell was not checked before it ran: /);
    assertEquals(bench.said.filter((line) => !line.startsWith("debug")), []);
  });
}

Deno.test("CodeChecker says once that the type checker ty is not available", async () => {
  await using bench = await Bench.start();
  for (let cell = 0; cell < 3; cell++) {
    const report = await bench.checker.check(WRONG, never);
    assertEquals([report.problems, report.isComplete], [[], false]);
    bench.checker.ended("well");
  }
  const warnings = bench.said.filter((line) => line.startsWith("warn"));
  assertEquals(warnings.length, 1);
  assertMatch(warnings[0] ?? "", /ty is not installed. Run `ipybox setup`$/);
});

Deno.test("CodeChecker replaces a type checker that dies, and goes on with what it knows", async () => {
  const python = await Deno.realPath(dirname(testPython()));
  await using bench = await Bench.start(join(python, "ty"), "server");
  const messages = async () => {
    const { problems } = await bench.checker.check(WRONG, never, 20_000);
    bench.checker.ended("blocked");
    return problems.map(({ evalue }) => evalue);
  };
  const found = [
    "gh.create.run() is missing a required argument: 'title'",
    "gh.create.run() got an unexpected argument 'titel'. Did you mean: 'title'?",
  ];

  assertEquals(await messages(), found);
  const [first] = bench.started;
  assertEquals(first?.stderrTail, "");
  if (first !== undefined) Deno.kill(first.pid, "SIGKILL");
  await first?.exited;
  assertEquals(await messages(), found);
  assertEquals(bench.started.length, 2);
});
