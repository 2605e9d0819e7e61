/**
 * What providers of models take as the schema of a tool's arguments.
 *
 * @module
 */

/** A JSON schema, as tools declare it. */
export type Schema = Readonly<Record<string, unknown>>;

/** Gemini's `Schema` object knows these keywords; `default` is taken and passed over. */
const GEMINI: ReadonlySet<string> = new Set(
  ("type format title description nullable enum maxItems minItems properties required minProperties " +
    "maxProperties minLength maxLength pattern example anyOf propertyOrdering default items minimum " +
    "maximum").split(" "),
);

/** OpenAI's structured outputs know these; SDKs remove `default`, and add the other requirements. */
const OPENAI: ReadonlySet<string> = new Set(
  "type description enum const properties required items anyOf additionalProperties default".split(
    " ",
  ),
);

/**
 * Says why Gemini would refuse a schema.
 *
 * @param schema The schema of all arguments.
 * @returns Where and why; nothing for one that it takes.
 */
export function geminiProblems(schema: Schema): string[] {
  return walk(schema, "", (part, at) => [
    ...unknownWords(part, GEMINI, at),
    ...(typeof part.type === "string" ? [] : [`${at}: no single type`]),
    ...(part.enum !== undefined && part.type !== "string" ? [`${at}: enum of no strings`] : []),
    ...(part.type === "array" && part.items === undefined ? [`${at}: a list of what?`] : []),
    // A tool without arguments is declared without a schema; deeper, an object needs properties.
    ...(at !== "" && part.type === "object" && count(part.properties) === 0
      ? [`${at}: an object without properties`]
      : []),
    ...strings(part.required).filter((name) => !(name in record(part.properties)))
      .map((name) => `${at}: requires ${name}, which it does not declare`),
  ]);
}

/**
 * Says why a schema cannot be made strict, which is: all properties are required, there are no others,
 * and each object says so.
 *
 * @param schema The schema of all arguments.
 * @returns Where and why; nothing for one that can.
 */
export function strictProblems(schema: Schema): string[] {
  return walk(schema, "", (part, at) => [
    ...unknownWords(part, OPENAI, at),
    ...(part.type === "object" && ![undefined, false].includes(boolean(part.additionalProperties))
      ? [`${at}: properties of any name`]
      : []),
    ...(part.type === "object" && part.properties === undefined
      ? [`${at}: an object whose properties are not declared`]
      : []),
    ...(at !== "" && part.description === undefined && !at.endsWith("[]")
      ? [`${at}: not described`]
      : []),
  ]);
}

function walk(
  schema: Schema,
  at: string,
  problemsOf: (part: Schema, at: string) => string[],
): string[] {
  const properties = Object.entries(record(schema.properties));
  return [
    ...problemsOf(schema, at),
    ...properties.flatMap(([name, inner]) => walk(record(inner), `${at}.${name}`, problemsOf)),
    ...(schema.items === undefined ? [] : walk(record(schema.items), `${at}[]`, problemsOf)),
  ];
}

function unknownWords(part: Schema, known: ReadonlySet<string>, at: string): string[] {
  return Object.keys(part).filter((word) => !known.has(word)).map((word) => `${at}: ${word}`);
}

function record(value: unknown): Schema {
  return typeof value === "object" && value !== null ? { ...value } : {};
}

function strings(value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : [];
}

/** What JSON Schema means by a value where a boolean may stand: a schema is as good as `true`. */
function boolean(value: unknown): boolean | undefined {
  return value === undefined ? undefined : value !== false;
}

function count(value: unknown): number {
  return Object.keys(record(value)).length;
}
