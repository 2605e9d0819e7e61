/** What the other end of a placement could make people believe. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { EnvironmentNotReadyError, GatewayStartError } from "../../src/base/errors.ts";
import { bootCommand } from "../../src/placement/boot.ts";
import { ManagedProcess } from "../../src/process/managed_process.ts";
import { namedProgram } from "../../src/process/program.ts";
import { TestExecutor } from "../support/executor.ts";
import { testPython } from "../support/python.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { rejection } from "../support/wait.ts";

const program = new URL("../../templates/launcher/resumable.py", import.meta.url).pathname;
const python = namedProgram(testPython());

/** Reads what the relay sends, and answers as a holder that lies does. */
const LIAR = `
import json, os, struct, sys, time
def until(end):
    said = b""
    while not said.endswith(end):
        said += os.read(0, 1) or sys.exit()
until(b"\\0"); until(b"\\n"); until(b"\\n")
def note(text):
    os.write(1, struct.pack(">BI", 5, len(text)) + text)
os.write(1, json.dumps({"protocol": 1, "received": 0}).encode() + b"\\n")
os.write(2, b"\\xef\\xbb\\xbfrelay: forged 1\\nbar\\rrelay: forged 2\\n\\x1b[31mrelay: forged 3\\n")
for text in (b"\\x1b[0mrelay: forged 4\\n", b"\\0relay: forged 5\\n", b"\\xc2\\x9brelay: forged 6\\n"):
    note(text)
for length in (8191, 8192, 4000, 3999):
    note(b"x" * length + b"relay: forged 7\\n")
note(b"the end\\n")
time.sleep(60)
`;

Deno.test("nothing that another machine says passes for the relay's own words", async () => {
  await using folder = await TempFolder.create();
  const { path } = folder;
  const config = {
    ...{ command: [python, "-c", LIAR, ...bootCommand(python)], stop: null, made: false },
    ...{ gone: null, secret: "s", beat_seconds: 15, socket: "/none", idle_seconds: 60 },
  };
  await Deno.writeTextFile(`${path}/relay.json`, JSON.stringify(config));
  const lines: string[] = [];
  const all = Promise.withResolvers<void>();
  await using _relay = ManagedProcess.spawn({
    command: python,
    args: ["-I", "-S", program, "relay", `${path}/relay.json`],
    env: {},
    inputGraceMs: 0,
    onStderr: (line) => {
      lines.push(line);
      const isLast = (text: string) => lines.some((line) => line.endsWith(text));
      if (isLast("the end") && isLast("forged 3")) all.resolve();
    },
  });
  await all.promise;
  assertEquals(lines.filter((line) => line.startsWith("relay:")), []);
  const said = new Set(lines.flatMap((line) => line.match(/forged [1-6]$/) ?? []));
  assertEquals(said.size, 6, lines.join("\n"));
});

Deno.test("what another machine says before it fails is told apart from what ipybox says", async () => {
  const script =
    'printf "no\\r\\nTo fix it: sh evil\\n\\033[0mipybox: warning: evil\\n" >&2; exit 1';
  const placement = { type: "command", command: ["/bin/sh", "-c", script] } as const;
  const error = await rejection(TestExecutor.start({ placement }));
  assert(error instanceof EnvironmentNotReadyError, `${error}`);
  assertMatch(error.message, /no\n {2}To fix it: sh evil\n {2}ipybox: warning: evil\n/);
});

/** Says of a sandbox what is to be shown to people. */
const REPORTER = `
import json, os, struct, sys, time
def line():
    said = b""
    while not said.endswith(b"\\n"):
        said += os.read(0, 1) or sys.exit()
while os.read(0, 1) != b"\\0": pass
line()
facts = {"ipybox": 1, "system": "linux", "machine": "x86_64", "version": [3, 11], "python": "/p",
         "checker": None, "missing": [], "requirements": None, "has": True, "bwrap": None}
os.write(1, json.dumps(facts).encode() + b"\\n")
line()
report = {"pid": 1, "uid": 1, "platform": "linux", "failures": ["a\\nTo fix it: sh evil"]}
report = json.dumps(report).encode()
os.write(1, struct.pack(">BII", 5, 0, len(report)) + report)
time.sleep(60)
`;

Deno.test("a report of another machine adds no lines to what people are told", async () => {
  const placement = { type: "command", command: [python, "-c", REPORTER] } as const;
  const error = await rejection(TestExecutor.start({ placement }));
  assert(error instanceof GatewayStartError, `${error}`);
  assertEquals(error.message.includes("evil"), false);
});
