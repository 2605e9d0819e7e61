/** Servers that write more than anybody could read, beside others that want to be answered. */
import { assert, assertRejects, assertStringIncludes } from "@std/assert";
import { ToolCallError } from "../../src/base/errors.ts";
import { connectMcp } from "../../src/mcp/connect.ts";
import { rawServer } from "../support/mcp.ts";
import { Stalls } from "../support/stalls.ts";

const FLOODS = {
  "empty lines on stderr": { errors: true, line: "\n" },
  "short lines on stderr": { errors: true, line: "\x1b[1mx\n" },
  "empty lines": { line: "\n" },
  "blank lines": { line: " \n" },
  "what is no message": { line: "x\n" },
  "notifications": { line: '{"jsonrpc":"2.0","method":"notifications/x"}\n' },
  "log messages": {
    line: '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\n',
  },
  "answers to nothing": { line: '{"jsonrpc":"2.0","id":99999,"result":{}}\n' },
};

const NAMES = Object.fromEntries(Array.from({ length: 2001 }, (_, at) => [`n${at}`, 1]));
const LOG = { jsonrpc: "2.0", method: "notifications/message" };
const EXPENSIVE: Readonly<Record<string, readonly [line: string, problem: string]>> = {
  "a notification of many values": [
    JSON.stringify({ ...LOG, params: { level: "info", data: Array(10_001).fill(1) } }),
    "more than 10000 values",
  ],
  "a notification of many names": [
    JSON.stringify({ ...LOG, params: { level: "info", data: 1, _meta: NAMES } }),
    "more than 2000 names",
  ],
  "a notification of many names, whose method is written with an escape": [
    JSON.stringify({ ...LOG, params: { level: "info", data: 1, _meta: NAMES } })
      .replace('"method"', '"\\u006dethod"'),
    "more than 2000 names",
  ],
  "a response of more values than the SDK can look into": [
    JSON.stringify({
      jsonrpc: "2.0",
      id: 99,
      result: {
        content: Array(50_001).fill(1),
      },
    }),
    "more than 50000 values",
  ],
};

for (const [what, [line, problem]] of Object.entries(EXPENSIVE)) {
  Deno.test(`a server that sends ${what} is stopped`, async () => {
    await using connection = await connectMcp("flood", rawServer());
    const error = await assertRejects(
      () => connection.callTool("pour", { line: `${line}\n`, ms: 1 }),
      ToolCallError,
    );
    assertStringIncludes(error.message, problem);
  });
}

for (const [what, flood] of Object.entries(FLOODS)) {
  Deno.test(`a server that writes ${what} without end does not stop the host`, async () => {
    await using connection = await connectMcp("flood", rawServer());
    const calls = connection.callTool("pour", { ...flood, ms: 1000 });
    const poured = calls.then(() => true, () => true);
    using stalls = new Stalls();
    await poured;
    assert(stalls.longestMs < 1000, `another session would have waited ${stalls.longestMs} ms`);
  });
}
