import { assertEquals, assertStringIncludes } from "@std/assert";
import { shapeOf } from "../json/shape.ts";
import { isObject, type Json, toJson } from "./json.ts";
import { signatureOf, stubOf } from "./signature.ts";
import { stubOfModule } from "./stubs.ts";

function signature(tool: unknown): string {
  const definition = toJson(tool);
  if (!isObject(definition)) throw new TypeError("not a definition");
  return signatureOf({ server: "web", tool: "search", module: "search" }, definition);
}

Deno.test("signatureOf() writes a function as one would by hand", () => {
  const inputSchema = {
    type: "object",
    properties: {
      query: { type: "string", minLength: 1 },
      limit: { type: "integer", minimum: 1, default: 10 },
      sort: { enum: ["stars", "forks"] },
      weights: { type: "array", items: { type: "number" } },
    },
    required: ["query"],
  };
  const item = {
    type: "object",
    properties: { id: { type: "integer", minimum: 1 } },
    required: ["id"],
  };
  const items = { type: "array", items: item };
  const outputSchema = { type: "object", properties: { items }, required: ["items"] };
  assertEquals(
    signature({ name: "search", inputSchema, outputSchema }),
    "search.run(query: str, limit: int | None = 10, " +
      'sort: Literal["stars", "forks"] | None = None, weights: list[float] | None = None) -> ' +
      "Result(items: list[Item])\n  Item(id: int)",
  );
});

Deno.test("signatureOf() writes a function without arguments, and one without a schema", () => {
  assertEquals(
    signature({ name: "search", inputSchema: { type: "object" } }),
    "search.run() -> str",
  );
  assertEquals(signature({ name: "search" }), "search.run() -> str");
});

Deno.test("stubOf() gives what is needed to call a tool, and nothing of how it is called", () => {
  const definition = toJson({
    name: "search",
    inputSchema: {
      type: "object",
      properties: {
        query: { type: "string", description: "What to\n look for", minLength: 1 },
        sort: { enum: ["stars", "forks"] },
        where: { type: "object", properties: { field: { type: "string" } }, required: ["field"] },
      },
      required: ["query"],
    },
    outputSchema: {
      type: "object",
      properties: { count: { type: "integer", description: "How many" } },
      required: ["count"],
    },
  });
  if (!isObject(definition)) throw new TypeError("not a definition");
  assertEquals(
    stubOf({ server: "web", tool: "search", module: "search" }, definition),
    `
search.run(
    query: str,  # What to look for; length >= 1
    sort: Literal["stars", "forks"] | None = None,
    where: Where | None = None,
) -> Result
class Where:
    field: str
class Result:
    count: int  # How many`.trim(),
  );
});

Deno.test("run_json() is shown with how often its type was seen, where the tool declares none", () => {
  const origin = { server: "web", tool: "search", module: "search" };
  const results = { calls: 3, shape: shapeOf([{ id: 1, tags: ["a"], by: { id: 2 } }, { id: 1 }]) };
  const open = new Map([["name", "search"]]);
  const shown = [
    "search.run() -> str",
    "search.run_json(...) -> list[JsonItem]  # observed in 3 calls, not declared",
    '  JsonItem: {"id": int, "tags": NotRequired[list[str]], "by": NotRequired[By]}',
    '  By: {"id": int}',
  ];
  assertEquals(signatureOf(origin, open, results), shown.join("\n"));
  assertStringIncludes(stubOf(origin, open, results), shown.slice(1).join("\n"));
  const closed = new Map<string, Json>([...open, ["outputSchema", new Map([["type", "object"]])]]);
  for (const text of [signatureOf(origin, closed, results), stubOf(origin, closed, results)]) {
    assertEquals(text.includes("run_json"), false);
  }
  // For a type checker, what was seen proves nothing of what comes.
  const { text } = stubOfModule(origin, { definition: open, results }, 7);
  assertStringIncludes(
    text,
    "def mcp7_run_json(_: Mcp7_Params | dict[str, Any] | None = ..., /, **others: Any) -> Any: ...",
  );
  assertStringIncludes(text, "    run_json_async = staticmethod(mcp7_run_json_async)");
  assertEquals(stubOfModule(origin, { definition: open }, 7).text.includes("run_json"), false);
});
