/**
 * Derives Python names from the names that servers give: deterministic, unique and importable.
 *
 * @module
 */
import { sha256 } from "../json/digest.ts";

/** Python's keywords. */
export const KEYWORDS: ReadonlySet<string> = new Set(
  ("False None True and as assert async await break class continue def del elif else except " +
    "finally for from global if import in is lambda nonlocal not or pass raise return try while " +
    "with yield").split(" "),
);

/** Public attributes of Pydantic's `BaseModel` since version 2.11, and of the runtime's bases. */
const MODEL_ATTRIBUTES = ("construct copy dict from_orm json model_computed_fields model_config " +
  "model_construct model_copy model_dump model_dump_json model_extra model_fields " +
  "model_fields_set model_json_schema model_parametrized_name model_post_init model_rebuild " +
  "model_validate model_validate_json model_validate_strings parse_file parse_obj parse_raw " +
  "schema schema_json from_arguments to_arguments tool_result update_forward_refs validate")
  .split(" ");

/** Names that the bodies of generated classes use. A field with such a name would shadow them. */
const CLASS_BODY_NAMES =
  ("str int float bool list dict tuple Any Literal Annotated Field ClassVar " +
    "Int Num Bool Null Never pattern multiple_of unique one_of sent").split(" ");

/** `self` would clash in the constructor that type checkers synthesize. */
const FIELD_RESERVED = new Set([...KEYWORDS, ...MODEL_ATTRIBUTES, ...CLASS_BODY_NAMES, "self"]);

/** Global names of generated modules, and builtins that a class should not shadow. */
const CLASS_RESERVED = new Set([
  ...KEYWORDS,
  ...CLASS_BODY_NAMES,
  ...("Params Result CLIENT TypeAliasType InputModel CheckedModel OutputModel ResultModel " +
    "ResultMapping ResultValue ResultRoot ToolText TypedDict NotRequired Ellipsis NotImplemented Exception BaseException Warning " +
    "ArithmeticError AssertionError AttributeError BaseExceptionGroup BlockingIOError " +
    "BrokenPipeError BufferError BytesWarning ChildProcessError ConnectionAbortedError " +
    "ConnectionError ConnectionRefusedError ConnectionResetError DeprecationWarning EOFError " +
    "EncodingWarning EnvironmentError ExceptionGroup FileExistsError FileNotFoundError " +
    "FloatingPointError FutureWarning GeneratorExit IOError ImportError ImportWarning " +
    "IndentationError IndexError InterruptedError IsADirectoryError KeyError KeyboardInterrupt " +
    "LookupError MemoryError ModuleNotFoundError NameError NotADirectoryError " +
    "NotImplementedError OSError OverflowError PendingDeprecationWarning PermissionError " +
    "ProcessLookupError PythonFinalizationError RecursionError ReferenceError ResourceWarning " +
    "RuntimeError RuntimeWarning StopAsyncIteration StopIteration SyntaxError SyntaxWarning " +
    "SystemError SystemExit TabError TimeoutError TypeError UnboundLocalError " +
    "UnicodeDecodeError UnicodeEncodeError UnicodeError UnicodeTranslateError UnicodeWarning " +
    "UserWarning ValueError WindowsError ZeroDivisionError").split(" "),
]);

/** All but letters, digits and marks of Unicode 13's basic plane: a syntax error in Python 3.10. */
const NOT_IN_NAME =
  /[^\p{XID_Continue}]|[\u{10000}-\u{10ffff}]|[\u0870-\u088e\u0890-\u089f\u0c3c\u0c5c-\u0c5d\u0cdc-\u0cdd\u0cf3\u0ece\u1700-\u171f\u180f\u1ac1-\u1aff\u1c89\u1c8a\u1df5-\u1dff\u200c\u200d\u2c2f\u2c5f\u30fb\u9ffd-\u9fff\ua7c0\ua7c1\ua7cb-\ua7f4\uff65]/gu;

/** Assigns a field name to every property of a class. */
export function fieldNames(properties: Iterable<string>): Map<string, string> {
  const wanted = new Map([...properties].map((name) => [name, fieldName(name)]));
  const real = new Set(wanted.keys());
  const pool = new NamePool((name) => real.has(name), "_");
  const names = new Map<string, string>();
  for (const [property, name] of [...wanted].sort(byName)) {
    names.set(property, property === name ? name : pool.take(name));
  }
  return names;
}

function fieldName(property: string): string {
  let name = normalized(property).replace(NOT_IN_NAME, "_");
  // Pydantic treats names with a leading underscore as private.
  if (/^_*$/.test(name) || name.startsWith("_")) name = `field${name}`;
  if (!/^[\p{XID_Start}]/u.test(name)) name = `field_${name}`;
  return FIELD_RESERVED.has(name) ? `${name}_` : name;
}

/** The part of a property's name that counts: sorting the marks of a long name takes quadratic time. */
export function normalized(property: string): string {
  return property.slice(0, MAX_HINT).normalize("NFKC");
}

/** Assigns the names of a module's classes. */
export class ClassNames {
  readonly #pool: NamePool;
  readonly #hints = new Map<string, string>();

  /** @param avoid The names of all properties: no class may have one, or a field would shadow it. */
  constructor(readonly avoid: ReadonlySet<string>) {
    this.#pool = new NamePool((name) => avoid.has(name) || CLASS_RESERVED.has(name), "");
  }

  /** A new name from the first hint whose name is free. */
  next(...hints: readonly [string, ...string[]]): string {
    const wanted = hints.map(pascalCase);
    const free = wanted.find((name) => this.#pool.isFree(name)) ?? wanted[0] ?? "";
    const name = this.#pool.take(free);
    this.#hints.set(name, hints[0].slice(0, MAX_HINT));
    return name;
  }

  /** The hint that a name was made from. */
  hintOf(name: string): string {
    return this.#hints.get(name) ?? name;
  }
}

/** The longest part of a hint that counts. */
export const MAX_HINT = 200;

/** A hint in PascalCase. */
export function pascalCase(hint: string): string {
  const words = hint.slice(0, MAX_HINT).normalize("NFKD").split(/[^A-Za-z0-9]+/).filter(Boolean);
  const name = words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("");
  return (/^\d/.test(name) ? `N${name}` : name || "Item").slice(0, 80);
}

/** Assigns a module name to every tool of a server. */
export function moduleNames(tools: readonly string[]): Map<string, string> {
  const wanted = tools.map((tool): [string, string] => [tool, moduleName(tool)]).sort(byName);
  const unchanged = new Set(wanted.filter(([tool, name]) => tool === name).map(([tool]) => tool));
  const pool = new NamePool((name) => unchanged.has(name), "_");
  return new Map(
    wanted.map(([tool, name]) => [tool, unchanged.has(tool) ? name : pool.take(name)]),
  );
}

function moduleName(tool: string): string {
  let name = tool.replaceAll(/[^a-zA-Z0-9_]/g, "_").toLowerCase();
  if (/^_*$/.test(name)) name = "tool";
  // A leading underscore looks private, and __init__ and __main__ are special.
  else if (/^[_\d]/.test(name)) name = `tool_${name.replace(/^_+/, "")}`;
  if (name.length > 100) name = `${name.slice(0, 91)}_${sha256(tool).slice(0, 8)}`;
  return KEYWORDS.has(name) ? `${name}_` : name;
}

/** Assigns each name once, with a number if it is taken. */
export class NamePool {
  readonly #taken = new Set<string>();
  readonly #numbers = new Map<string, number>();

  constructor(readonly isReserved: (name: string) => boolean, readonly separator: string) {}

  isFree(name: string): boolean {
    return !this.#taken.has(name) && !this.isReserved(name);
  }

  take(name: string): string {
    let free = name;
    let number = this.#numbers.get(name) ?? 1;
    while (!this.isFree(free)) {
      free = `${name}${this.separator}${++number}`;
    }
    this.#numbers.set(name, number);
    this.#taken.add(free);
    return free;
  }
}

function byName([left]: [string, string], [right]: [string, string]): number {
  return left < right ? -1 : left > right ? 1 : 0;
}

// Singular forms of English nouns, for class names.

const IRREGULAR: ReadonlyMap<string, string> = new Map([
  ...pairs("people person children child men man women woman mice mouse feet foot teeth tooth"),
  ...pairs("geese goose criteria criterion phenomena phenomenon indices index vertices vertex"),
  ...pairs("matrices matrix appendices appendix movies movie cookies cookie ties tie pies pie"),
  ...pairs("lies lie dies die zombies zombie selfies selfie calories calorie caches cache"),
  ...pairs("axes axis aches ache shoes shoe toes toe buses bus gases gas biases bias"),
  ...pairs("aliases alias canvases canvas atlases atlas lenses lens leaves leaf lives life"),
  ...pairs("knives knife wives wife halves half shelves shelf wolves wolf selves self"),
  ...pairs("loaves loaf thieves thief quizzes quiz databases database"),
  ...pairs("bases base oases oasis synopses synopsis niches niche psyches psyche"),
]);

/** Words that only look like plurals, or are both. */
const UNCHANGED = new Set(
  ("news series species means lens bus gas alias bias canvas atlas always status progress access " +
    "address process class this is has was as us yes plus minus js css https dns aws ios os " +
    "kubernetes redis analytics metadata data media info").split(" "),
);

/** The singular of the last word of a name; `undefined` if it is not a plural. */
export function singular(plural: string): string | undefined {
  const word = lastWord(plural);
  if (word === "") return undefined;
  const one = singularWord(word.toLowerCase());
  if (one === undefined) return undefined;
  const start = plural.slice(0, plural.length - word.length);
  if (/^[A-Z]+s$/.test(word)) return start + word.slice(0, -1);
  const isCapital = /^[A-Z]/.test(word);
  return start + (isCapital ? one.charAt(0).toUpperCase() + one.slice(1) : one);
}

/** `Id` of `userId`, `IDs` of `userIDs`. Scans from the end, in linear time. */
function lastWord(name: string): string {
  const startOf = (end: number, isPart: RegExp) => {
    let at = end;
    while (at > 0 && isPart.test(name.charAt(at - 1))) at--;
    return at;
  };
  const end = name.endsWith("s") ? name.length - 1 : name.length;
  const capitals = startOf(end, /[A-Z]/);
  if (end - capitals > 1) return name.slice(capitals);
  const small = startOf(name.length, /[a-z]/);
  if (small === name.length) return name.slice(capitals);
  return name.slice(/[A-Z]/.test(name.charAt(small - 1)) ? small - 1 : small);
}

function singularWord(word: string): string | undefined {
  const irregular = IRREGULAR.get(word);
  if (irregular !== undefined) return irregular;
  if (UNCHANGED.has(word) || word.length < 3 || !word.endsWith("s")) return undefined;
  if (/(?:ss|us|is)$/.test(word)) return undefined;
  if (word.endsWith("ies") && word.length > 4) return `${word.slice(0, -3)}y`;
  // "statuses" but "causes", "houses" and "uses"
  if (/(?:ss|sh|ch|x|zz|[^aoef]us|o)es$/.test(word) && !/^(?:use|cause)s$/.test(word)) {
    return word.slice(0, -2);
  }
  if (/(?:analy|cri|the|diagno|hypothe|synthe|parenthe|paraly)ses$/.test(word)) {
    return `${word.slice(0, -2)}is`;
  }
  return word.slice(0, -1);
}

function pairs(words: string): [string, string][] {
  const list = words.split(" ");
  return list.flatMap((word, at) => at % 2 === 0 ? [[word, list[at + 1] ?? ""]] : []);
}
