/**
 * Parameters that a server of the newer era wants in HTTP headers, too. The protocol leaves out a tool
 * that declares them in a way that cannot be followed.
 *
 * @module
 */

const KEYWORD = "x-mcp-header";
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const TYPES: readonly unknown[] = ["string", "integer", "boolean"];

/** Keywords with schemas that hold for only some arguments, or for more than one. */
const NESTED = [
  ..."items prefixItems contains additionalProperties unevaluatedProperties".split(" "),
  ..."unevaluatedItems propertyNames oneOf anyOf allOf not if then else".split(" "),
];
/** Keywords with schemas of that kind by name. */
const NESTED_MAPS = ["patternProperties", "dependentSchemas", "$defs", "definitions"];

/** Finds what is wrong with the headers that a tool asks for. */
export function headerProblem(inputSchema: unknown): string | undefined {
  const headers = new Set<string>();
  const waiting = [{ schema: inputSchema, isArgument: false, isFixed: true }];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { schema, isArgument, isFixed } = next;
    if (typeof schema !== "object" || schema === null) continue;
    const parts = new Map<string, unknown>(Object.entries(schema));
    if (parts.has(KEYWORD)) {
      const header = parts.get(KEYWORD);
      const shown = JSON.stringify(header).slice(0, 100);
      if (!isArgument) return `${KEYWORD} ${shown} is not at a property of the arguments`;
      if (typeof header !== "string" || !TOKEN.test(header)) {
        return `${KEYWORD} ${shown} is not the name of a header`;
      }
      if (!TYPES.includes(parts.get("type"))) {
        return `${KEYWORD} ${shown} is at a property that is not a string, integer or boolean`;
      }
      if (headers.has(header.toLowerCase())) return `${KEYWORD} ${shown} is declared twice`;
      headers.add(header.toLowerCase());
    }
    for (const part of valuesOf(parts.get("properties"))) {
      waiting.push({ schema: part, isArgument: isFixed, isFixed });
    }
    const others = [
      ...NESTED.flatMap((keyword) => {
        const part = parts.get(keyword);
        return Array.isArray(part) ? part : [part];
      }),
      ...NESTED_MAPS.flatMap((keyword) => valuesOf(parts.get(keyword))),
    ];
    for (const part of others) waiting.push({ schema: part, isArgument: false, isFixed: false });
  }
  return undefined;
}

function valuesOf(value: unknown): unknown[] {
  return typeof value === "object" && value !== null ? Object.values(value) : [];
}
