/**
 * An MCP server on stdio without a library, for `sandboxed_server.ts`. Its tool counts the words of any
 * file that it can read.
 *
 * @module
 */
import { readFile } from "node:fs/promises";
import process from "node:process";
import { createInterface } from "node:readline";

const COUNT_WORDS = {
  name: "count_words",
  description: "Counts the words of a text file.",
  inputSchema: {
    type: "object",
    properties: { path: { type: "string", description: "An absolute path." } },
    required: ["path"],
  },
};

async function countWords({ path }) {
  try {
    const words = (await readFile(path, "utf8")).match(/\S+/g) ?? [];
    return { content: [{ type: "text", text: `${words.length} words` }] };
  } catch (error) {
    return { content: [{ type: "text", text: error.message }], isError: true };
  }
}

async function answer({ method, params }) {
  switch (method) {
    case "initialize": {
      const { protocolVersion } = params;
      const serverInfo = { name: "words", version: "1.0.0" };
      return { result: { protocolVersion, capabilities: { tools: {} }, serverInfo } };
    }
    case "tools/list":
      return { result: { tools: [COUNT_WORDS] } };
    case "tools/call":
      return { result: await countWords(params.arguments) };
    default:
      return { error: { code: -32601, message: `Unknown method ${method}` } };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  if (message.id === undefined) continue; // a notification
  const reply = { jsonrpc: "2.0", id: message.id, ...await answer(message) };
  process.stdout.write(`${JSON.stringify(reply)}\n`);
}
