/** What the other end of a placement could make people believe. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { EnvironmentNotReadyError, GatewayStartError } from "../../src/base/errors.ts";
import { namedProgram } from "../../src/process/program.ts";
import { TestExecutor } from "../support/executor.ts";
import { testPython } from "../support/python.ts";
import { rejection } from "../support/wait.ts";

const python = namedProgram(testPython());

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
