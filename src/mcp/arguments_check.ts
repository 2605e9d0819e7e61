import { CfWorkerJsonSchemaValidator } from "@modelcontextprotocol/client/validators/cf-worker";
import { type ExactObject, stringifyExact } from "../json/exact.ts";

/** The most references to follow: a server's schema may have endlessly many. */
const MAX_REFERENCES = 10_000;
/** The longest check: code may have chosen many values, of which each is compared with a large schema. */
const MAX_MS = 250;
const MAX_PROBLEM = 500;

/**
 * Checks arguments against a server's schema, which may be hostile. Its regular expressions are left to
 * the server, as are unique items, an invalid schema and one that takes too long.
 */
export function checkArguments(
  schema: Readonly<Record<string, unknown>>,
  args: ExactObject,
): string | undefined {
  const validator = new CfWorkerJsonSchemaValidator();
  try {
    const safe = guarded(schema, { references: 0, end: performance.now() + MAX_MS });
    const { valid, errorMessage } = validator.getValidator(safe)(JSON.parse(stringifyExact(args)));
    return valid
      ? undefined
      : (errorMessage ?? "They do not match its schema").slice(0, MAX_PROBLEM);
  } catch {
    return undefined; // the schema is invalid or endless: the server checks the arguments itself
  }
}

const REFERENCES: readonly string[] = ["$ref", "$recursiveRef", "$dynamicRef"];
/** Keywords that may take long and are removed: those of patterns, and one that compares all with all. */
const SLOW: readonly string[] = ["pattern", "patternProperties", "uniqueItems"];
/** Keywords that may reject more once one of those inside them is removed. */
const INVERTING: readonly string[] = ["not", "oneOf", "if", "then", "else", "contains"];
/** Keywords that map names, which are not keywords, to schemas. */
const MAPS: readonly string[] = ["properties", "$defs", "definitions", "dependentSchemas"];
/** Keywords whose value is data rather than a schema. */
const DATA: readonly string[] = ["const", "enum", "default", "examples"];

/** What a check may still do. */
interface Budget {
  references: number;
  /** When it ends, by `performance.now()`. */
  readonly end: number;
}

/** Copies a schema without what is slow. Each use of it looks at the budget, and may throw. */
function guarded(schema: object, budget: Budget): Record<string, unknown> {
  const copy: Record<string, unknown> = {};
  const look = () => {
    if (performance.now() > budget.end) throw new RangeError("The check takes too long");
    return undefined;
  };
  look(); // copies of schemas in schemas take long, too
  // The validator asks each schema for it, each time that it compares a value.
  Object.defineProperty(copy, "$ref", { configurable: true, get: look });
  for (const [keyword, value] of Object.entries(schema)) {
    if (SLOW.includes(keyword)) {
      // A name that only a pattern allows must not count as unknown.
      if (keyword === "patternProperties") define(copy, "additionalProperties", true);
    } else if (INVERTING.includes(keyword) && hasSlow(schema, keyword)) {
      continue;
    } else if (REFERENCES.includes(keyword)) {
      Object.defineProperty(copy, keyword, {
        enumerable: true,
        get: () => {
          look();
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

function hasSlow(schema: object, keyword: string): boolean {
  const branches = ["then", "else"].includes(keyword) ? "if" : keyword;
  const text = JSON.stringify(Object.getOwnPropertyDescriptor(schema, branches)?.value ?? null);
  return SLOW.some((slow) => text.includes(`"${slow}"`));
}

function copied(keyword: string, value: unknown, budget: Budget): unknown {
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
