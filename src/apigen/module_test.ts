import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { renderFiles } from "./generate.ts";

/** The module of a tool. */
function moduleOf(definition: Record<string, unknown>): string {
  return renderFiles("demo", { tools: [{ name: "t", ...definition }] }).files.get("t.py") ?? "";
}

/** The annotation of a required property in `Params`, or in `Result`. */
function typeOf(schema: unknown, rest: Record<string, unknown> = {}, output = false): string {
  const root = { type: "object", properties: { x: schema }, required: ["x"], ...rest };
  const text = moduleOf(output ? { inputSchema: {}, outputSchema: root } : { inputSchema: root });
  const body = text.split(output ? "class Result(" : "class Params(")[1] ?? "";
  const match = /\n {4}x: ([^]*?)(?:\n {4}\S|\n\n)/.exec(body);
  return (match?.[1] ?? "").replaceAll(/\s+/g, " ").replaceAll(/([[(]) | ?,? (?=[\])])/g, "$1");
}

/** Whether the whole schema is checked, too. */
function isChecked(schema: unknown): boolean {
  return moduleOf({ inputSchema: { type: "object", properties: { x: schema } } })
    .includes("class Params(CheckedModel)");
}

Deno.test("every keyword that a type can express becomes one, and needs no further check", () => {
  const cases: [schema: unknown, type: string][] = [
    [{ type: "string" }, "str"],
    [{ type: "integer" }, "Int"],
    [{ type: "number" }, "Num"],
    [{ type: "boolean" }, "Bool"],
    [{ type: "null" }, "None"],
    [{}, "Any"],
    [true, "Any"],
    [{ description: "x" }, "Any"],
    [false, "Never"],
    [{ enum: ["a", "b", "a"] }, 'Literal["a", "b"]'],
    [{ enum: ["a", null] }, 'Literal["a"] | None'],
    [{ enum: [1, 2] }, "Annotated[Literal[1, 2], one_of(1, 2)]"],
    [{ enum: ["a", true] }, 'Annotated[Literal["a", True], one_of("a", True)]'],
    [{ enum: [1, true] }, "Annotated[Any, one_of(1, True)]"],
    [{ enum: [1.5, { a: 1 }] }, 'Annotated[Any, one_of(1.5, {"a": 1})]'],
    [{ enum: ["\ud800"] }, 'Annotated[Any, one_of("\\ud800")]'],
    [{ type: "string", enum: ["a", 1] }, 'Literal["a"]'],
    [{ enum: [] }, "Never"],
    [{ const: "a" }, 'Literal["a"]'],
    [{ const: null }, "None"],
    [{ anyOf: [{ type: "string" }, { type: "null" }, { type: "string" }] }, "str | None"],
    [{ anyOf: [{ const: "a" }, { const: "b" }, { type: "integer" }] }, 'Literal["a", "b"] | Int'],
    [{ oneOf: [{ type: "string" }, { type: "integer" }] }, "str | Int"],
    [{ type: ["string", "null", "integer"] }, "str | Int | None"],
    [
      { type: ["string", "integer"], minLength: 1, minimum: 2 },
      "Annotated[str, Field(min_length=1)] | Annotated[Int, Field(ge=2)]",
    ],
    [
      { allOf: [{ type: "integer", minimum: 1 }, { minimum: 3, maximum: 9 }, { maximum: 5 }] },
      "Annotated[Int, Field(ge=3, le=5)]",
    ],
    [{ allOf: [{ type: "string" }, { type: "integer" }] }, "Never"],
    [
      { type: "string", minLength: 1, maxLength: 5, pattern: "^a\\d$" },
      'Annotated[str, Field(min_length=1, max_length=5, pattern="^a[0-9]$")]',
    ],
    [{ type: "string", pattern: "\\p{L}" }, 'Annotated[str, pattern("\\\\p{L}")]'],
    [{ type: "string", pattern: "^(?!a)b" }, "str"],
    [{ type: "string", pattern: "(" }, "str"],
    [{ type: "string", format: "uuid", contentEncoding: "base64" }, "str"],
    [{ type: "number", minimum: 0, exclusiveMaximum: 1.5 }, "Annotated[Num, Field(ge=0, lt=1.5)]"],
    [{ type: "integer", minimum: 0.5, exclusiveMaximum: 3.5 }, "Annotated[Int, Field(ge=1, le=3)]"],
    [{ type: "number", multipleOf: 0.01 }, "Annotated[Num, multiple_of(0.01)]"],
    [{ type: "array" }, "list[Any]"],
    [
      { type: "array", items: { type: "string" }, minItems: 1, uniqueItems: true },
      "Annotated[list[str], Field(min_length=1), unique]",
    ],
    [
      { type: "array", prefixItems: [{ type: "string" }, {}], items: false, minItems: 2 },
      "tuple[str, Any]",
    ],
    [{ type: "object" }, "dict[str, Any]"],
    [
      { type: "object", additionalProperties: { type: "integer" }, maxProperties: 3 },
      "Annotated[dict[str, Int], Field(max_length=3)]",
    ],
    [{ type: "object", additionalProperties: false }, "dict[str, Never]"],
    [{ type: "object", properties: { a: {} } }, "X"],
    [{ type: "object", propertyNames: { type: "string" } }, "dict[str, Any]"],
    [{ type: "string", nullable: true, example: "x", "x-y": 1, readOnly: true }, "str"],
  ];
  for (const [schema, type] of cases) {
    assertEquals(typeOf(schema), type, JSON.stringify(schema));
    assert(!isChecked(schema), JSON.stringify(schema));
  }
});

Deno.test("what types cannot say is left to the check of the whole schema", () => {
  const schemas: unknown[] = [
    { not: { type: "string" } },
    { if: {}, then: false },
    { type: "array", contains: {} },
    { type: "object", patternProperties: { a: {} } },
    { type: "object", propertyNames: { maxLength: 1 } },
    { type: "object", dependentRequired: { a: ["b"] } },
    { type: "object", required: ["a"] },
    { type: "object", properties: { a: {} }, minProperties: 1 },
    { minLength: 3 },
    { properties: { a: {} } },
    { oneOf: [{ minimum: 1 }, { maximum: 5 }] },
    { unevaluatedItems: false },
    { $ref: "#/nowhere" },
    { type: "array", prefixItems: [{}] },
    { enum: ["a"], minLength: 3 },
    {
      allOf: [{ properties: { a: {} }, additionalProperties: false, type: "object" }, {
        properties: { b: {} },
      }],
    },
    {
      anyOf: [{ required: ["a"] }, { required: ["b"] }],
      type: "object",
      properties: { a: {}, b: {} },
    },
  ];
  for (const schema of schemas) assert(isChecked(schema), JSON.stringify(schema));
});

Deno.test("results are generous: no limits, no closed objects, nothing missing that is not required", () => {
  const cases: [schema: unknown, type: string][] = [
    [{ type: "string", minLength: 3, pattern: "a" }, "str"],
    [{ type: "integer", minimum: 3 }, "Int"],
    [{ type: "array", items: {}, minItems: 3, uniqueItems: true }, "list[Any]"],
    [{ type: "object", additionalProperties: false }, "dict[str, Any]"],
    [{ properties: { a: {} } }, "X"],
    [{ items: { type: "string" } }, "list[str]"],
    [{ enum: ["a"] }, 'Literal["a"]'],
  ];
  for (const [schema, type] of cases) assertEquals(typeOf(schema, {}, true), type);
  const text = moduleOf({
    inputSchema: {},
    outputSchema: {
      type: "object",
      properties: { a: { type: "string", default: "b" } },
      additionalProperties: false,
    },
  });
  assertStringIncludes(text, "    a: str | None = None\n");
  assert(!text.includes("forbid"));
});

Deno.test("fields say whether they are required, may be null, have a default or another name", () => {
  const text = moduleOf({
    inputSchema: {
      type: "object",
      properties: {
        needed: { type: "string" },
        needed_null: { type: ["string", "null"] },
        optional: { type: "string", description: "What it is." },
        optional_null: { type: ["string", "null"], default: null },
        preset: { type: "integer", default: 5 },
        odd: { type: "integer", default: "five" },
        many: { type: "array", items: { type: "string" }, default: ["a"] },
        from: { type: "string" },
        "x-y": { type: "string", minLength: 1 },
      },
      required: ["needed", "needed_null", "x-y"],
      additionalProperties: { type: "integer" },
    },
  });
  for (
    const line of [
      "    needed: str\n",
      "    needed_null: str | None\n",
      '    optional: str | None = None\n    """What it is."""\n',
      "    optional_null: str | Null = None\n",
      "    preset: Int | None = 5\n",
      '    odd: Int | None = None\n    """Default: \'five\'"""\n',
      '    many: list[str] | None = None\n    """Default: ["a"]"""\n',
      '    from_: Annotated[str | None, Field(alias="from")] = None\n',
      '    x_y: Annotated[str, Field(min_length=1), Field(alias="x-y")]\n',
      "    __pydantic_extra__: dict[str, Int] = Field(init=False)\n",
    ]
  ) assertStringIncludes(text, line);
});

Deno.test("references become one class each, also where they go round in circles", () => {
  const text = moduleOf({
    inputSchema: {
      type: "object",
      properties: {
        root: { $ref: "#/$defs/node" },
        other: { $ref: "#/$defs/node" },
        self: { $ref: "#" },
      },
      $defs: {
        node: {
          type: "object",
          properties: { children: { type: "array", items: { $ref: "#/$defs/node" } } },
        },
      },
    },
  });
  assertEquals(text.match(/^class \w+/gm), ["class Node", "class Params"]);
  assertStringIncludes(text, "    children: list[Node] | None = None\n");
  assertStringIncludes(text, '    self_: Annotated[Params | None, Field(alias="self")] = None\n');
  assertMatch(text, /\nParams\.model_rebuild\(\)\n/);
});

Deno.test("a type that refers to itself gets a name", () => {
  const json = { anyOf: [{ type: "string" }, { type: "array", items: { $ref: "#/$defs/json" } }] };
  const text = moduleOf({
    inputSchema: { properties: { v: { $ref: "#/$defs/json" } }, $defs: { json } },
  });
  assertStringIncludes(text, 'Json = TypeAliasType("Json", "str | list[Json]")\n');
});

Deno.test("objects that one property tells apart are told apart by it", () => {
  const branch = (kind: string, rest: Record<string, unknown>) => ({
    type: "object",
    properties: { kind: { const: kind }, ...rest },
    required: ["kind"],
  });
  const schema = { oneOf: [branch("a", { x: {} }), branch("b", { y: {} })] };
  assertEquals(typeOf(schema), 'Annotated[XA | XB, Field(discriminator="kind")]');
  assert(!isChecked(schema));
});

Deno.test("long lists of values that several fields take are written once", () => {
  const countries = Array.from({ length: 40 }, (_, at) => `country-${at}`);
  const text = moduleOf({
    inputSchema: {
      properties: {
        country: { enum: countries },
        others: { type: "array", items: { enum: countries } },
        sort: { enum: ["up", "down"] },
        order: { enum: ["up", "down"] },
      },
    },
  });
  assertEquals(text.split('"country-39"').length, 2);
  assertStringIncludes(text, '\nCountry = Literal[\n    "country-0", "country-1",');
  assertStringIncludes(text, "    country: Country | None = None\n");
  assertStringIncludes(text, "    others: list[Country] | None = None\n");
  assertStringIncludes(text, '    order: Literal["up", "down"] | None = None\n');
  for (const line of text.split("\n")) assert(line.length <= 100, line);
});

Deno.test("a result that is no object has a root", () => {
  const text = moduleOf({
    inputSchema: {},
    outputSchema: { type: "array", items: { type: "string" } },
  });
  assertStringIncludes(text, "class Result(ResultRoot[list[str]]):\n");
});

Deno.test("input and output share one table of names", () => {
  const record = {
    type: "object",
    properties: { record: { type: "object", properties: { a: {} } } },
  };
  const text = moduleOf({ inputSchema: record, outputSchema: record });
  assertEquals(text.match(/^class \w+/gm), [
    "class Record",
    "class Params",
    "class ResultRecord",
    "class Result",
  ]);
});

Deno.test("equal schemas are one class, and names say what is different", () => {
  const address = { type: "object", properties: { address: { type: "string" } } };
  const recipient = { type: "object", properties: { emailAddress: address } };
  const list = { type: "array", items: recipient };
  const position = { type: "object", properties: { line: { type: "integer" } } };
  const body = (name: string) => ({
    type: "object",
    properties: { body: { type: "object", properties: { [name]: { type: "string" } } } },
  });
  const text = moduleOf({
    inputSchema: {
      type: "object",
      properties: {
        toRecipients: list,
        ccRecipients: { ...list, description: "Who gets a copy." },
        entities: { type: "array", items: { ...position, properties: { x: {}, line: {} } } },
        start: position,
        end: { ...position, description: "Where it ends." },
        request: body("ask"),
        answer: body("say"),
      },
    },
  });
  assertEquals(text.match(/^class \w+/gm), [
    "class EmailAddress",
    "class Recipient",
    "class Entity",
    "class StartOrEnd",
    "class Body",
    "class Request",
    "class AnswerBody",
    "class Answer",
    "class Params",
  ]);
  assertStringIncludes(text, "    toRecipients: list[Recipient] | None = None\n");
  assertStringIncludes(text, "    ccRecipients: list[Recipient] | None = None\n");
});

Deno.test("members of a union are named by what only they have", () => {
  const comment = (name: string, rest: Record<string, unknown> = {}) => ({
    type: "object",
    properties: { body: { type: "string" }, [name]: { type: "integer" }, ...rest },
    required: [name, "body"],
  });
  const anyOf = [comment("line", { side: {} }), comment("range"), {
    type: "object",
    properties: { body: { type: "string" } },
  }];
  assertEquals(
    typeOf({ type: "array", items: { anyOf } }, {}).replaceAll(" ", ""),
    "list[XItemWithLine|XItemWithRange|XItem]",
  );
});

Deno.test("a required property with a default need not be given, and its default is sent", () => {
  const text = moduleOf({
    inputSchema: {
      type: "object",
      properties: {
        scale: { enum: ["css", "device"], default: "css" },
        level: { type: "integer", default: 20, maximum: 10 },
        names: { type: "array", items: { type: "string" }, default: [] },
      },
      required: ["scale", "level", "names"],
    },
  });
  assertStringIncludes(text, '    scale: Literal["css", "device"] = sent("css")\n');
  assertStringIncludes(text, "    level: Annotated[Int, Field(le=10)]\n");
  assertStringIncludes(text, '    """Default: 20"""\n');
  assertStringIncludes(text, "    names: list[str]\n");
});

Deno.test("a pattern that cannot be checked is said where the field is described", () => {
  const text = moduleOf({
    inputSchema: {
      properties: {
        a: { type: "string", pattern: "(", description: "What." },
        b: { type: "array", items: { type: "string", pattern: "[" } },
        c: { type: "string", pattern: "^x$" },
      },
      type: "object",
    },
  });
  assertStringIncludes(text, '    """What.\n    Not checked: (\n    """\n');
  assertStringIncludes(text, '    """Not checked: ["""\n');
  assertEquals(text.split("Not checked").length, 3);
});

Deno.test("what a description says more than once is said once, without its indentation", () => {
  const entity = {
    type: "object",
    properties: { name: { type: "string", description: "What it is called." } },
  };
  const text = moduleOf({
    description: "Reads.\n\n        Args:\n            path: Where.\n        ",
    inputSchema: {
      type: "object",
      properties: { entity: { ...entity, description: "What to keep." } },
    },
    outputSchema: { type: "object", properties: { entity } },
  });
  assertEquals(text.split("What it is called.").length, 2);
  assertEquals(text.split("What to keep.").length, 2);
  assertStringIncludes(text, '    """Reads.\n\n    Args:\n        path: Where.\n    """\n');
});

Deno.test("integers beyond a double's precision stay what the server said", () => {
  const { rawJSON } = JSON as typeof JSON & { rawJSON(text: string): unknown };
  assertEquals(
    typeOf({ type: "integer", minimum: rawJSON("9007199254740993"), maximum: 2n ** 70n }),
    "Annotated[Int, Field(ge=9007199254740993, le=1180591620717411303424)]",
  );
  assertEquals(typeOf({ type: "integer", multipleOf: 2 ** 60 }), "Int");
});

Deno.test("a module reads like Python that a person wrote", async () => {
  const definition = {
    name: "t",
    title: "Search",
    description: "Searches for things.\n\nTakes a while.",
    annotations: { readOnlyHint: true, openWorldHint: true },
    inputSchema: {
      type: "object",
      properties: {
        query: { type: "string", description: "What to look for." },
        sort: { type: "string", enum: ["new", "old"], default: "new" },
        page: {
          type: "object",
          properties: { size: { type: "integer" } },
          additionalProperties: false,
        },
      },
      required: ["query"],
    },
    outputSchema: {
      type: "object",
      properties: { hits: { type: "array", items: { type: "string" } } },
      required: ["hits"],
    },
  };
  const text = moduleOf(definition);
  const expected = new URL("../../tests/fixtures/search_module.py", import.meta.url);
  assertEquals(text, await Deno.readTextFile(expected));
});
