import fc from "./fast_check.ts";

/** Names that schemas of the same document share, so that keywords meet. Some are awkward in Python. */
const NAMES = [
  "a",
  "b",
  "from",
  "model_config",
  "json",
  "x-y",
  "x.y",
  "__proto__",
  "_c",
  "1st",
  "é",
];

const name = fc.constantFrom(...NAMES);

const scalar: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom(null, true, false, 0, 1, 1.5, -1, "", "a", "b", "1"),
);

const value: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 4, arbitrary: scalar },
  { weight: 1, arbitrary: fc.array(scalar, { maxLength: 2 }) },
  { weight: 1, arbitrary: fc.dictionary(name, scalar, { maxKeys: 2 }) },
);

const type = fc.constantFrom("null", "boolean", "integer", "number", "string", "array", "object");

const small = fc.integer({ min: 0, max: 3 });

const pattern = fc.constantFrom("a", "^a", "b$", "^$", "^[ab]+$", "b{2}", "a|b", "[^a]");

/** Schemas that use all keywords, valid but senseless; references go to the definitions. */
export const arbitrarySchema: fc.Arbitrary<unknown> = fc.letrec<{ schema: unknown }>((tie) => {
  const schema = tie("schema");
  const schemas = fc.array(schema, { minLength: 1, maxLength: 3 });
  const map = fc.dictionary(name, schema, { maxKeys: 3 });
  const keywords = {
    type: fc.oneof({ weight: 4, arbitrary: type }, {
      weight: 1,
      arbitrary: fc.uniqueArray(type, { minLength: 1, maxLength: 3 }),
    }),
    enum: fc.array(value, { minLength: 1, maxLength: 3 }),
    const: value,
    default: value,
    minimum: fc.constantFrom(-1, 0, 0.5, 1),
    maximum: fc.constantFrom(0, 1, 1.5, 2),
    exclusiveMinimum: fc.constantFrom(-0.5, 0, 1),
    exclusiveMaximum: fc.constantFrom(1, 1.5, 2),
    multipleOf: fc.constantFrom(0.5, 1, 2, 0.1),
    minLength: small,
    maxLength: small,
    pattern,
    items: schema,
    prefixItems: schemas,
    minItems: small,
    maxItems: small,
    uniqueItems: fc.boolean(),
    contains: schema,
    minContains: small,
    maxContains: small,
    unevaluatedItems: schema,
    properties: map,
    required: fc.uniqueArray(name, { maxLength: 2 }),
    additionalProperties: schema,
    patternProperties: fc.dictionary(pattern, schema, { maxKeys: 2 }),
    propertyNames: schema,
    minProperties: small,
    maxProperties: small,
    dependentRequired: fc.dictionary(name, fc.uniqueArray(name, { maxLength: 2 }), { maxKeys: 2 }),
    dependentSchemas: map,
    unevaluatedProperties: schema,
    allOf: schemas,
    anyOf: schemas,
    oneOf: schemas,
    not: schema,
    if: schema,
    then: schema,
    else: schema,
    $ref: fc.constantFrom("#", "#/$defs/p", "#/$defs/q", "#/properties/a"),
    description: fc.string({ unit: "grapheme", maxLength: 20 }),
    title: fc.string({ maxLength: 5 }),
  };
  const few = fc
    .uniqueArray(fc.constantFrom(...Object.keys(keywords) as (keyof typeof keywords)[]), {
      maxLength: 4,
    })
    .chain((chosen) =>
      fc.record(Object.fromEntries(chosen.map((keyword) => [keyword, keywords[keyword]])))
    );
  return {
    schema: fc.oneof(
      { maxDepth: 4, depthIdentifier: "schema" },
      fc.record({ type }),
      fc.boolean(),
      few,
    ),
  };
}).schema;

/** A tool's input schema: an object with two properties and two definitions. */
export const arbitraryInput: fc.Arbitrary<Record<string, unknown>> = fc.record({
  a: arbitrarySchema,
  other: arbitrarySchema,
  p: arbitrarySchema,
  q: arbitrarySchema,
  required: fc.boolean(),
  root: fc.oneof(fc.constant({}), arbitrarySchema.filter((schema) => typeof schema === "object")),
}).map(({ a, other, p, q, required, root }) => ({
  ...(root as Record<string, unknown>),
  type: "object",
  properties: { a, "x-y": other },
  ...(required ? { required: ["a"] } : {}),
  $defs: { p, q },
}));
