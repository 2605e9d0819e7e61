import { assertEquals, assertThrows } from "@std/assert";
import { ToolCallError } from "../base/errors.ts";
import { messageOf, parseToolResult } from "./results.ts";

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
  assertEquals(parseToolResult(result), result);
});

Deno.test("parseToolResult() keeps structured content that looks like nothing", () => {
  for (const value of [0, false, "", null, [], {}]) {
    assertEquals(parseToolResult({ content: [], structuredContent: value }), {
      content: [],
      structuredContent: value,
    });
  }
  assertEquals("structuredContent" in parseToolResult({ content: [] }), false);
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
    const error = assertThrows(() => parseToolResult(raw), ToolCallError, "malformed");
    assertEquals(error.type, "protocol_error");
  }
});

Deno.test("messageOf() shows the first of the SDK's issues, and parses no longer text of a server", () => {
  const issue = JSON.stringify({ path: ["a", 0], message: "wrong" });
  assertEquals(messageOf(new Error(`Bad: [${issue},${issue}]`)), "Bad: a/0: wrong (and 1 more)");
  const text = `[${Array(10_000).fill(issue).join(",")}]`;
  assertEquals(messageOf(new Error(text)), `${text.slice(0, 300)}…`);
});
