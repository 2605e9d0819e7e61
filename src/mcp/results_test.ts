import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { z } from "zod";
import { ToolCallError } from "../base/errors.ts";
import { stringifyExact } from "../json/exact.ts";
import { messageOf, parseToolResult, responseOf } from "./results.ts";

function read(result: unknown): ReturnType<typeof parseToolResult> {
  return parseToolResult(JSON.stringify({ jsonrpc: "2.0", id: 1, result }));
}

Deno.test("parseToolResult() passes on what the server sent, of known and unknown kinds", () => {
  const result = {
    content: [
      { type: "text", text: "a", annotations: { audience: ["user"] }, _meta: { k: 1 } },
      { type: "image", data: "AA==", mimeType: "image/png" },
      { type: "resource", resource: { uri: "x:y", blob: "AA==" } },
      { type: "resource_link", uri: "x:y", name: "n" },
      { type: "hologram", depth: 3 },
      ...["constructor", "toString", "__proto__", "hasOwnProperty"].map((type) => ({ type })),
    ],
    structuredContent: { a: [1] },
    isError: true,
    _meta: { trace: "x" },
  };
  assertEquals(read(result), result);
});

Deno.test("parseToolResult() keeps structured content that looks like nothing", () => {
  for (const value of [0, false, "", null, [], {}]) {
    assertEquals(read({ content: [], structuredContent: value }), {
      content: [],
      structuredContent: value,
    });
  }
  assertEquals("structuredContent" in read({ content: [] }), false);
});

Deno.test("a result has its numbers as they were written, and its response is one line", () => {
  const content = '{"one":1.0,"big":12345678901234567890}';
  const result = parseToolResult(`{"result":\n{"structuredContent":${content}},\n"id":1}`);
  assertEquals(stringifyExact(result.structuredContent), content);
  assertStrictEquals(result.structuredContent, result.structuredContent);
  assertEquals(JSON.stringify(result), `{"content":[],"structuredContent":${content}}`);
  assertEquals(responseOf(result), `{"result": {"structuredContent":${content}}, "id":1}`);
  assertEquals(responseOf({ ...result }), undefined);
});

Deno.test("parseToolResult() refuses what is no tool's result", () => {
  const wrong = [
    null,
    "text",
    [],
    { content: "text" },
    { content: [{ text: "no type" }] },
    { content: [{ type: "text" }] },
    { content: [{ type: "image", data: 1, mimeType: "image/png" }] },
    { content: [{ type: "resource", resource: { uri: "x" } }] },
    { content: [], isError: "yes" },
  ];
  for (const raw of wrong) {
    const error = assertThrows(() => read(raw), ToolCallError, "malformed");
    assertEquals(error.type, "protocol_error");
  }
});

const shape = z.object({ tools: z.array(z.object({ name: z.string(), size: z.number() })) });

Deno.test("messageOf() gives the first of the SDK's issues, and any message in one line", () => {
  const { error } = shape.safeParse({ tools: [{ name: 1, size: "x" }] });
  const first = "tools/0/name: Invalid input: expected string, received number (and 1 more)";
  assertEquals(
    messageOf(new Error(`Invalid result for x: ${error?.message}`)),
    `Invalid result for x: ${first}`,
  );
  assertEquals(messageOf(new Error("one\n  two [ {x} ]")), "one two [ {x} ]");
  const issue = JSON.stringify({ path: ["a", 0], message: "wrong" });
  const text = `[${Array(10_000).fill(issue).join(",")}]`; // longer than any of the SDK's
  assertEquals(messageOf(new Error(text)), `${text.slice(0, 300)}…`);
});
