import { CfWorkerJsonSchemaValidator } from "@modelcontextprotocol/client/validators/cf-worker";
import { type ExactObject, stringifyExact } from "../json/exact.ts";

/** The most references to follow: a server's schema may have endlessly many. */
const MAX_REFERENCES = 10_000;
const MAX_PROBLEM = 500;

/** Checks arguments against a server's schema, which may be hostile: its regular expressions are left to the server. */
export function checkArguments(
  schema: Readonly<Record<string, unknown>>,
  args: ExactObject,
): string | undefined {
  const validator = new CfWorkerJsonSchemaValidator();
  try {
    const safe = guarded(schema, { references: 0 });
    const { valid, errorMessage } = validator.getValidator(safe)(JSON.parse(stringifyExact(args)));
    return valid
      ? undefined
      : (errorMessage ?? "They do not match its schema").slice(0, MAX_PROBLEM);
  } catch {
    return undefined; // the schema is invalid or endless: the server checks the arguments itself
  }
}

const REFERENCES: readonly string[] = ["$ref", "$recursiveRef", "$dynamicRef"];
const PATTERNS: readonly string[] = ["pattern", "patternProperties"];
/** Keywords that may reject more once a pattern inside them is removed. */
const INVERTING: readonly string[] = ["not", "oneOf", "if", "then", "else", "contains"];
/** Keywords that map names, which are not keywords, to schemas. */
const MAPS: readonly string[] = ["properties", "$defs", "definitions", "dependentSchemas"];
/** Keywords whose value is data rather than a schema. */
const DATA: readonly string[] = ["const", "enum", "default", "examples"];

/** Copies a schema without its patterns, and counts each use of a reference. */
function guarded(schema: object, budget: { references: number }): Record<string, unknown> {
  const copy: Record<string, unknown> = {};
  for (const [keyword, value] of Object.entries(schema)) {
    if (PATTERNS.includes(keyword)) {
      // A name that only a pattern allows must not count as unknown.
      if (keyword === "patternProperties") define(copy, "additionalProperties", true);
    } else if (INVERTING.includes(keyword) && hasPattern(schema, keyword)) {
      continue;
    } else if (REFERENCES.includes(keyword)) {
      Object.defineProperty(copy, keyword, {
        enumerable: true,
        get: () => {
          if (++budget.references > MAX_REFERENCES) throw new RangeError("Too many references");
          return value;
        },
      });
    } else if (keyword !== "additionalProperties" || !("patternProperties" in schema)) {
      define(copy, keyword, copied(keyword, value, budget));
    }
  }
  return copy;
}

function hasPattern(schema: object, keyword: string): boolean {
  const branches = ["then", "else"].includes(keyword) ? "if" : keyword;
  return JSON.stringify(Object.getOwnPropertyDescriptor(schema, branches)?.value ?? null)
    .includes('"pattern');
}

function copied(keyword: string, value: unknown, budget: { references: number }): unknown {
  if (typeof value !== "object" || value === null || DATA.includes(keyword)) return value;
  if (Array.isArray(value)) return value.map((inner) => copied("", inner, budget));
  if (!MAPS.includes(keyword)) return guarded(value, budget);
  const map: Record<string, unknown> = {};
  for (const [name, inner] of Object.entries(value)) define(map, name, copied("", inner, budget));
  return map;
}

/** Not by assignment: a name may be `__proto__`. */
function define(target: object, name: string, value: unknown): void {
  Object.defineProperty(target, name, {
    value,
    enumerable: true,
    writable: true,
    configurable: true,
  });
}
