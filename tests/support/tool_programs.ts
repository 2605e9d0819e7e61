/**
 * Programs that call the tools of the corpus: right ones after its labelled examples, and the same
 * with one mistake in them.
 *
 * @module
 */
import {
  isArray,
  isObject,
  type Json,
  JsonNumber,
  type JsonObject,
} from "../../src/apigen/json.ts";
import type { ClassDefinition, Field, ModuleModel, PyType } from "../../src/apigen/model.ts";
import { modelOf } from "../../src/apigen/module_builder.ts";
import { KEYWORDS } from "../../src/apigen/names.ts";
import { literal } from "../../src/apigen/python.ts";

/** A mistake that a program can have. */
export const MISTAKES = [
  "wrong argument",
  "wrong field",
  "field of a value",
  "wrong tool",
  "wrong type",
  "wrong item",
  "missing argument",
] as const;

/** A mistake that a program can have. */
export type Mistake = (typeof MISTAKES)[number];

/** A program, whose lines can stand behind those of others in one cell. */
export interface ToolProgram {
  readonly tool: string;
  /** `undefined` in a right one. */
  readonly mistake: Mistake | undefined;
  readonly lines: readonly string[];
}

/** A tool with examples of its arguments and structured results that its schemas allow. */
export interface ExampleTool {
  readonly server: string;
  readonly tool: string;
  readonly module: string;
  /** The modules of all tools of its server. */
  readonly modules: readonly string[];
  readonly definition: JsonObject;
  /** Objects of arguments. */
  readonly valid: readonly Json[];
  readonly results: readonly Json[];
}

/** Makes the programs of a tool. The same seed makes the same mistakes. */
export class ToolPrograms {
  readonly #tool: ExampleTool;
  readonly #model: ModuleModel;
  readonly #params: ClassDefinition | undefined;
  readonly #result: ClassDefinition | undefined;
  readonly #random: Random;

  /**
   * @param tool The tool.
   * @param seed Where its mistakes come from.
   */
  constructor(tool: ExampleTool, seed: number) {
    this.#tool = tool;
    this.#model = modelOf(tool, tool.definition);
    this.#params = this.#class("Params");
    this.#result = this.#class("Result");
    this.#random = new Random(`${seed} ${tool.server} ${tool.tool}`);
  }

  /** A program for each valid example, and one for each result. */
  right(): ToolProgram[] {
    const calls = this.#tool.valid.filter(isObject).map((example) => this.#call(example));
    const results = this.#tool.results.map((result) => [
      ...this.#firstCall(),
      ...this.#uses(result),
    ]);
    return [...calls, ...results].map((lines) => ({ tool: this.#id, mistake: undefined, lines }));
  }

  /** A program with each mistake that can be made in calling the tool. */
  wrong(): ToolProgram[] {
    return MISTAKES.flatMap((mistake) => {
      const lines = this.#wrong(mistake);
      return lines === undefined ? [] : [{ tool: this.#id, mistake, lines }];
    });
  }

  get #id(): string {
    return `${this.#tool.server}.${this.#tool.module}`;
  }

  #wrong(mistake: Mistake): string[] | undefined {
    switch (mistake) {
      case "wrong argument":
        return this.#wrongArgument();
      case "wrong field":
        return this.#wrongField();
      case "field of a value": {
        const field = this.#random.of(["id", "status", "name", "results", "data"]);
        return this.#model.returns !== "result" || this.#isPlainValue()
          ? [...this.#firstCall(), `print(result.${field})`]
          : undefined;
      }
      case "wrong tool":
        return this.#wrongTool();
      case "wrong type":
        return this.#wrongType();
      case "wrong item":
        return this.#wrongItem();
      case "missing argument":
        return this.#missingArgument();
    }
  }

  /** Whether the result is an envelope around what has no fields. */
  #isPlainValue(): boolean {
    const [value] = this.#result?.base === "ResultValue" ? this.#result.fields : [];
    return value !== undefined && ["list", "dict", "name"].includes(plainOf(value.type).kind);
  }

  #wrongArgument(): string[] | undefined {
    const declared = this.#fields.map(({ name }) => name);
    return this.#changed((field) => {
      const name = this.#random.misspelt(field.name, declared);
      return name === undefined ? undefined : (text) => `${name}=${text}`;
    });
  }

  #wrongType(): string[] | undefined {
    return this.#changed((field) => {
      const value = this.#valueUnlike(field.type, field.required);
      return value === undefined ? undefined : () => `${field.name}=${value}`;
    });
  }

  #wrongItem(): string[] | undefined {
    return this.#changed((field) => {
      const item = itemOf(field.type);
      const value = item === undefined ? undefined : this.#valueUnlike(item, true);
      return value === undefined ? undefined : () => `${field.name}=[${value}]`;
    });
  }

  #missingArgument(): string[] | undefined {
    return this.#changed((field) => field.required ? () => undefined : undefined);
  }

  #wrongTool(): string[] | undefined {
    const { server, module, modules } = this.#tool;
    const wrong = this.#random.misspelt(module, modules);
    if (wrong === undefined) return undefined;
    const call = `run(${this.#keywords(this.#fullest(), () => undefined).join(", ")})`;
    return this.#random.of([
      [`from mcptools.${server} import ${wrong}`, `result = ${wrong}.${call}`],
      [`from mcptools import ${server}`, `result = ${server}.${wrong}.${call}`],
      [`import mcptools.${server}`, `result = mcptools.${server}.${wrong}.${call}`],
      [`from mcptools.${server}.${wrong} import run`, `result = ${call}`],
    ]);
  }

  /** A use of a field of a result, at whatever depth, that has no such name. */
  #wrongField(): string[] | undefined {
    if (this.#model.returns !== "result") return undefined;
    const paths = [...this.#tool.results.flatMap((result) => [...this.#paths(result)])]
      .flatMap(({ at, owner, field }) => {
        const wrong = this.#random.misspelt(field, owner);
        return wrong === undefined ? [] : [`print(${at}.${wrong})`];
      });
    return paths.length === 0 ? undefined : [...this.#firstCall(), this.#random.of(paths)];
  }

  /** An example's call with another text in the place of one of its arguments. */
  #changed(
    change: (field: Field) => ((text: string) => string | undefined) | undefined,
  ): string[] | undefined {
    const example = this.#fullest();
    const candidates = this.#random.shuffled(
      this.#fields.filter(({ wire, name }) => example.has(wire) && isPlainKeyword(name)),
    );
    for (const field of candidates) {
      const changed = change(field);
      if (changed === undefined) continue;
      const replace = (one: Field) => one === field ? changed : undefined;
      return this.#lines(this.#keywords(example, replace));
    }
    return undefined;
  }

  /** The example with the most arguments. */
  #fullest(): JsonObject {
    const examples = this.#tool.valid.filter(isObject);
    return examples.toSorted((a, b) => b.size - a.size)[0] ?? new Map();
  }

  #firstCall(): string[] {
    const [first = new Map()] = this.#tool.valid.filter(isObject);
    return this.#call(first);
  }

  #call(example: JsonObject): string[] {
    return this.#lines(this.#keywords(example, () => undefined));
  }

  #lines(keywords: readonly string[]): string[] {
    const { server, module } = this.#tool;
    const name = isPlainKeyword(module) && !USED.has(module) ? module : "tool";
    const as = name === module ? "" : ` as ${name}`;
    return [
      `from mcptools.${server} import ${module}${as}`,
      `result = ${name}.run(${keywords.join(", ")})`,
    ];
  }

  #keywords(
    example: JsonObject,
    replace: (field: Field) => ((text: string) => string | undefined) | undefined,
  ): string[] {
    return [...example].flatMap(([wire, value]) => {
      const text = literal(value);
      const field = this.#fields.find((field) => field.wire === wire);
      if (field !== undefined) {
        const change = replace(field);
        return change === undefined ? [`${field.name}=${text}`] : change(text) ?? [];
      }
      return isPlainKeyword(wire) ? [`${wire}=${text}`] : [`**{${literal(wire)}: ${text}}`];
    });
  }

  get #fields(): readonly Field[] {
    return this.#params?.fields ?? [];
  }

  // Results

  /** What code can do with a result. */
  #uses(result: Json): string[] {
    if (this.#model.returns !== "result") {
      return ["print(result.upper(), len(result), result.content)"];
    }
    const uses = [...this.#paths(result)].map(({ at, field }) => `print(${at}.${field})`);
    const lists = [...this.#lists("result", RESULT, result, 0)];
    // An envelope can be used like what is in it.
    const short = this.#result?.base === "ResultValue"
      ? [...uses, ...lists].map((use) => use.replace("result.result", "result"))
      : [];
    return [...uses, ...lists, ...short, ...this.#ownUses(result)];
  }

  /** What results of some kinds offer besides. */
  #ownUses(result: Json): string[] {
    const wrapped = isObject(result) ? result.get("result") : undefined;
    const [name] = isObject(result) ? [...result.keys()] : [];
    switch (this.#result?.base) {
      case "ResultMapping":
        return ["print(dict(result), list(result.items()), len(result), result.get('a'))"];
      case "ResultValue":
        return isArray(wrapped)
          ? ["print(len(result), result.result, [item for item in result], result.count(1))"]
          : typeof wrapped === "string"
          ? ["print(len(result), result.result, result.upper(), 'a' in result)"]
          : ["print(result.result, str(result))"];
      case "ResultModel":
        return [
          "print(result.model_dump(), result.tool_result.text)",
          ...(name === undefined ? [] : [`print(result[${literal(name)}])`]),
        ];
      default:
        return ["print(result.tool_result)"];
    }
  }

  /** Where declared fields are in a result: the expression of an object, its names, and one of them. */
  #paths(result: Json): Iterable<Path> {
    return this.#pathsIn("result", RESULT, result, 0);
  }

  *#pathsIn(at: string, type: PyType, value: Json, depth: number): Iterable<Path> {
    if (depth > MAX_DEPTH) return;
    for (const [next, part, inner] of this.#inside(at, type, value)) {
      yield* this.#pathsIn(next, part, inner, depth + 1);
    }
    const owner = this.#classOf(type);
    if (owner === undefined || !isObject(value)) return;
    const names = owner.extra === undefined ? owner.fields.map(({ name }) => name) : [];
    for (const field of owner.fields) {
      if (value.has(field.wire)) yield { at, owner: names, field: field.name };
    }
  }

  /** Loops over lists of objects. */
  *#lists(at: string, type: PyType, value: Json, depth: number): Iterable<string> {
    if (depth > MAX_DEPTH) return;
    const plain = plainOf(type);
    if (plain.kind === "list" && isArray(value) && value.length > 0) {
      const owner = this.#classOf(plain.item);
      const fields = owner?.fields.filter(({ wire }) =>
        value.every((item) =>
          isObject(item) && item.has(wire)
        )
      ) ?? [];
      const shown = ["item", ...fields.map(({ name }) => `item.${name}`)].join(", ");
      yield `print([(${shown}) for item in ${at}])`;
    }
    for (const [next, part, inner] of this.#inside(at, type, value)) {
      yield* this.#lists(next, part, inner, depth + 1);
    }
  }

  /** The parts of a value: their expressions, types and values. */
  *#inside(at: string, type: PyType, value: Json): Iterable<[string, PyType, Json]> {
    const plain = plainOf(type);
    if (plain.kind === "list" && isArray(value)) {
      const [first] = value;
      if (first !== undefined) yield [`${at}[0]`, plain.item, first];
    } else if (plain.kind === "dict" && isObject(value)) {
      for (const [key, item] of [...value].slice(0, 1)) {
        yield [`${at}[${literal(key)}]`, plain.value, item];
      }
    } else if (plain.kind === "class" && isObject(value)) {
      for (const { name, wire, type: part } of this.#classOf(plain)?.fields ?? []) {
        const item = value.get(wire);
        if (item !== undefined && item !== null) yield [`${at}.${name}`, part, item];
      }
    }
  }

  #classOf(type: PyType): ClassDefinition | undefined {
    const plain = plainOf(type);
    return plain.kind === "class" ? this.#class(plain.name) : undefined;
  }

  #class(name: string): ClassDefinition | undefined {
    const found = this.#model.definitions.find((part) => part.name === name);
    return found?.kind === "class" ? found : undefined;
  }

  // Values that do not fit

  /** The text of a value of another kind than a type takes. */
  #valueUnlike(type: PyType, required: boolean): string | undefined {
    const taken = this.#kindsOf(type, 0);
    if (taken === undefined) return undefined;
    const texts = Object.entries(WRONG)
      .filter(([kind]) => !taken.has(kind) && (kind !== "null" || required))
      .map(([, text]) => text);
    return texts.length === 0 ? undefined : this.#random.of(texts);
  }

  /** The kinds of JSON that a type takes; `undefined` where it may take any. */
  #kindsOf(type: PyType, depth: number): ReadonlySet<string> | undefined {
    switch (type.kind) {
      case "name":
        return KINDS[type.name];
      case "literal":
        return new Set(["string"]);
      case "oneOf":
        return new Set(type.values.map(kindOf));
      case "list":
      case "tuple":
        return new Set(["array"]);
      case "dict":
        return new Set(["object"]);
      case "annotated":
        return this.#kindsOf(type.base, depth);
      case "class": {
        const definition = this.#model.definitions.find(({ name }) => name === type.name);
        if (definition?.kind === "class") return new Set(["object"]);
        return definition === undefined || depth > MAX_DEPTH
          ? undefined
          : this.#kindsOf(definition.type, depth + 1);
      }
      case "union": {
        const kinds = new Set<string>();
        for (const member of type.members) {
          const some = this.#kindsOf(member, depth);
          if (some === undefined) return undefined;
          for (const kind of some) kinds.add(kind);
        }
        return kinds;
      }
    }
  }
}

interface Path {
  readonly at: string;
  readonly owner: readonly string[];
  readonly field: string;
}

const MAX_DEPTH = 6;

/** What programs in the same cell use. */
const USED = new Set(["dict", "len", "list", "print", "result", "str"]);

const RESULT: PyType = { kind: "class", name: "Result" };

const KINDS: Readonly<Record<string, ReadonlySet<string> | undefined>> = {
  str: new Set(["string"]),
  Int: new Set(["number"]),
  Num: new Set(["number"]),
  Bool: new Set(["boolean"]),
  None: new Set(["null"]),
  Null: new Set(["null"]),
};

/** A value of each kind, as people give it for another. */
const WRONG: Readonly<Record<string, string>> = {
  string: '"12"',
  number: "12",
  boolean: "True",
  array: '["a", "b"]',
  object: '{"name": "a"}',
  null: "None",
};

function kindOf(value: Json): string {
  if (value === null) return "null";
  if (value instanceof JsonNumber) return "number";
  if (isArray(value)) return "array";
  return typeof value; // also of an object
}

/** A type without its constraints and without None. */
function plainOf(type: PyType): PyType {
  if (type.kind === "annotated") return plainOf(type.base);
  if (type.kind !== "union") return type;
  const members = type.members.filter((member) =>
    member.kind !== "name" || !["None", "Null"].includes(member.name)
  );
  const [only] = members;
  return members.length === 1 && only !== undefined ? plainOf(only) : type;
}

function itemOf(type: PyType): PyType | undefined {
  const plain = plainOf(type);
  return plain.kind === "list" ? plain.item : undefined;
}

function isPlainKeyword(name: string): boolean {
  return /^[\p{XID_Start}_][\p{XID_Continue}]*$/u.test(name) && !KEYWORDS.has(name);
}

/** Numbers that depend on a text only. */
class Random {
  #state = 2166136261;

  constructor(seed: string) {
    for (const char of seed) this.#state = Math.imul(this.#state ^ char.charCodeAt(0), 16777619);
  }

  below(limit: number): number {
    this.#state = this.#state + 0x6d2b79f5 | 0;
    let bits = Math.imul(this.#state ^ this.#state >>> 15, 1 | this.#state);
    bits = bits + Math.imul(bits ^ bits >>> 7, 61 | bits) ^ bits;
    return Math.floor(((bits ^ bits >>> 14) >>> 0) / 2 ** 32 * limit);
  }

  of<T>(values: readonly T[]): T {
    const value = values[this.below(values.length)];
    if (value === undefined) throw new RangeError("There is nothing to choose from");
    return value;
  }

  shuffled<T>(values: readonly T[]): T[] {
    return values.map((value) => ({ value, rank: this.below(1 << 30) }))
      .sort((a, b) => a.rank - b.rank).map(({ value }) => value);
  }

  /** A name as it is written wrongly, which is none of the right ones; `undefined` for a very short one. */
  misspelt(name: string, right: readonly string[]): string | undefined {
    if (name.length < 2) return undefined;
    const at = this.below(name.length - 1);
    const ways = [
      name.slice(0, at) + name.slice(at + 1),
      name.slice(0, at) + name[at] + name.slice(at),
      name.slice(0, at) + name[at + 1] + name[at] + name.slice(at + 2),
      name.endsWith("s") ? name.slice(0, -1) : `${name}s`,
      name.includes("_")
        ? name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase())
        : name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    ];
    return this.shuffled(ways).find((way) =>
      way !== name && isPlainKeyword(way) && !way.startsWith("_") && !right.includes(way)
    );
  }
}
