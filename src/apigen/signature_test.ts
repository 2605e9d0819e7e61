import { assertEquals } from "@std/assert";
import { isObject, toJson } from "./json.ts";
import { signatureOf } from "./signature.ts";

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
  const outputSchema = { type: "object", properties: { items: { type: "array" } } };
  assertEquals(
    signature({ name: "search", inputSchema, outputSchema }),
    "search.run(query: str, limit: int | None = 10, " +
      'sort: Literal["stars", "forks"] | None = None, weights: list[float] | None = None) -> Result',
  );
});

Deno.test("signatureOf() writes a function without arguments, and one without a schema", () => {
  assertEquals(
    signature({ name: "search", inputSchema: { type: "object" } }),
    "search.run() -> str",
  );
  assertEquals(signature({ name: "search" }), "search.run() -> str");
});

Deno.test("signatureOf() gives a tool whose schema defeats the generator a function, too", () => {
  let schema: unknown = { type: "string" };
  for (let depth = 0; depth < 1500; depth++) schema = { type: "array", items: schema };
  const inputSchema = { type: "object", properties: { deep: schema } };
  assertEquals(signature({ name: "search", inputSchema }).startsWith("search.run("), true);
});
