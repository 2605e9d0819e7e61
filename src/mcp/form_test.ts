import { assert, assertEquals } from "@std/assert";
import { checkForm, type FormField, parseForm } from "./questions.ts";

function form(properties: Record<string, unknown>, required: string[] = []): readonly FormField[] {
  const fields = parseForm({ type: "object", properties, required });
  assert(fields !== undefined);
  return fields;
}

Deno.test("parseForm() reads each kind of field that servers may ask for", () => {
  const fields = form({
    name: { type: "string", title: "Name", minLength: 1 },
    mail: { type: "string", format: "email", default: "a@b.example" },
    odd: { type: "string", format: "no-such-format" },
    one: { type: "string", enum: ["a", "b"], enumNames: ["A", "B"] },
    two: { type: "string", oneOf: [{ const: "a", title: "A" }] },
    many: { type: "array", items: { anyOf: [{ const: "a", title: "A" }] }, maxItems: 1 },
    count: { type: "integer", minimum: 1 },
    yes: { type: "boolean", default: true },
  }, ["name"]);
  assertEquals(fields.map(({ type }) => type), [
    "text",
    "text",
    "text",
    "choice",
    "choice",
    "choices",
    "integer",
    "boolean",
  ]);
  assertEquals(fields.map(({ required }) => required).slice(0, 2), [true, false]);
  const [, , , one] = fields;
  assert(one?.type === "choice");
  assertEquals(one.options, [{ value: "a", title: "A" }, { value: "b", title: "B" }]);
});

Deno.test("parseForm() refuses what is no form", () => {
  for (
    const schema of [
      undefined,
      {},
      { type: "object", properties: { a: { type: "object", properties: {} } } },
      { type: "object", properties: { a: { $ref: "https://example.org" } } },
    ]
  ) {
    assertEquals(parseForm(schema), undefined);
  }
});

Deno.test("checkForm() takes what fits and names what does not", () => {
  const fields = form({
    text: { type: "string", minLength: 2, maxLength: 3 },
    mail: { type: "string", format: "email" },
    day: { type: "string", format: "date" },
    one: { type: "string", enum: ["a", "b"] },
    many: { type: "array", items: { enum: ["a", "b"] }, minItems: 1 },
    count: { type: "integer", minimum: 1, maximum: 9 },
    ratio: { type: "number" },
    yes: { type: "boolean" },
  }, ["text"]);
  const right = {
    text: "ab",
    mail: "a@b.example",
    day: "2026-02-28",
    one: "a",
    many: ["a", "b"],
    count: 9,
    ratio: 0.5,
    yes: false,
  };
  assertEquals(checkForm(fields, right), []);
  assertEquals(checkForm(fields, {}), ["text is missing"]);
  const wrong: Record<string, unknown> = {
    text: "a",
    mail: "nobody",
    day: "2026-02-30",
    one: "c",
    many: ["a", "a"],
    count: 1.5,
    ratio: NaN,
    yes: "true",
    other: 1,
  };
  for (const [name, value] of Object.entries(wrong)) {
    const problems = checkForm(fields, { ...right, [name]: value });
    assertEquals(problems.length, 1, name);
    assert(problems[0]?.startsWith(`${name} `), problems[0]);
  }
  assertEquals(checkForm(fields, { ...right, count: 10 }), ["count must be 1 to 9"]);
  assertEquals(checkForm(fields, { ...right, many: [] }), ["many must be at least 1 items"]);
});
