/** Servers that write more than anybody could read, beside others that want to be answered. */
import { assert } from "@std/assert";
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
