/**
 * Decides which of the type checker's findings are certain, and words them like Python's errors.
 *
 * @module
 */
import type { StubbedClass, StubbedTool } from "../apigen/stubs.ts";
import { isMisspelt, nearestNames } from "../base/nearest.ts";
import type { CellRange, Diagnostic } from "./language_server.ts";
import type { Inspection } from "./inspection.ts";
import type { StubTree } from "./stub_tree.ts";

/** A problem in code, worded as the exception that Python would raise. */
export interface CodeProblem extends CellRange {
  /** The class of the exception, such as `"TypeError"`. */
  readonly ename: string;
  /** Its message, with the most similar valid name if there is one. */
  readonly evalue: string;
}

/** Resolves names in the type checker's messages. */
type KnownNames = Pick<StubTree, "tool" | "members" | "isAdded">;

/** Problems: `certain` ones fail every time the code runs, `possible` ones may not. */
export interface Findings {
  readonly certain: readonly CodeProblem[];
  readonly possible: readonly CodeProblem[];
}

/** The problems of undefined names. Calls may define names, but not those that look misspelt. */
export function undefinedNames({ undefined: names, guarded }: Inspection): Findings {
  const certain: CodeProblem[] = [];
  const possible: CodeProblem[] = [];
  for (const { name, near, range, runs, late } of names) {
    if (guarded.some((place) => isWithin(range, place))) continue;
    const nearest = near === null ? [] : [near];
    const evalue = `name '${name}' is not defined${suggestion(nearest)}`;
    const problem = problemAt(range, "NameError", evalue);
    const isWrong = isMisspelt(name, nearest) && withoutDigits(name) !== withoutDigits(near ?? "");
    if (runs && (!late || isWrong)) certain.push(problem);
    else if (isWrong) possible.push(problem);
  }
  return { certain, possible };
}

/** Picks the findings about generated modules, and decides which are certain. */
export async function judge(
  diagnostics: readonly Diagnostic[],
  inspection: Inspection,
  { names, signal }: { readonly names: KnownNames; readonly signal: AbortSignal },
): Promise<Findings> {
  const certain: CodeProblem[] = [];
  const possible: CodeProblem[] = [];
  const relevant = diagnostics.filter((one) =>
    !inspection.loose.some((place) => isSpread(one, place))
  );
  const reader = new Reader(relevant, inspection, names);
  for (const diagnostic of relevant) {
    signal.throwIfAborted();
    const verdict = await reader.read(diagnostic);
    if (verdict === undefined) continue;
    const isGuarded = inspection.guarded.some((place) => isWithin(diagnostic, place));
    const { problem, isCertain } = verdict;
    (isCertain && !isGuarded ? certain : possible).push(problem);
  }
  return { certain, possible };
}

/** A function or class of a tool's module. */
interface Called extends StubbedClass {
  readonly text: string;
  readonly isTool: boolean;
}

interface Verdict {
  readonly problem: CodeProblem;
  readonly isCertain: boolean;
}

/** A name in a stub: the id of the tool, and the name in its module. */
const NAME = /`mcp(\d+)_(\w+?)(?:__(?:\d+|dict))?(?:\.__init__)?`/i;
/** A dictionary in the place of an object. */
const KEYED = /\bMcp\d+_\w+__dict\b/;
const EACH_KEYED = /\bMcp\d+_\w+__dict\b/g;
/** A module of `mcptools`. */
const MODULE = /`(mcptools(?:\.\w+)*)`/;

class Reader {
  readonly #lines: readonly string[];
  readonly #types = new Map<string, Types>();

  constructor(
    readonly diagnostics: readonly Diagnostic[],
    readonly inspection: Inspection,
    readonly names: KnownNames,
  ) {
    this.#lines = inspection.text.split("\n");
  }

  async read(diagnostic: Diagnostic): Promise<Verdict | undefined> {
    const { message } = diagnostic;
    switch (diagnostic.code) {
      case "unknown-argument":
        return this.#unknownArgument(diagnostic, /^Argument `(\w+)` does not match/.exec(message));
      case "missing-argument":
        return this.#missingArgument(diagnostic);
      case "invalid-argument-type":
        return this.#wrongType(diagnostic);
      case "too-many-positional-arguments":
        return this.#positional(diagnostic);
      case "not-iterable":
        return this.#loop(diagnostic);
      case "unknown-typed-dict-constructor-key":
        return this.#unknownKey(diagnostic);
      case "missing-typed-dict-key":
        return this.#missingKey(diagnostic);
      case "missing-attribute":
        return await this.#missingName(diagnostic);
      case "missing-module-member": {
        const [, module = "", name = ""] = /^Module `(.*)` has no member `(\w+)`/.exec(message) ??
          [];
        return await this.#notInModule(diagnostic, { module, name, isImported: true });
      }
      case "import-not-found":
        return await this.#notFound(diagnostic, MODULE.exec(message)?.[1]);
    }
    return undefined;
  }

  #unknownArgument(diagnostic: Diagnostic, match: RegExpExecArray | null): Verdict | undefined {
    const called = this.#called(diagnostic.message);
    const name = match?.[1];
    if (called === undefined || name === undefined) return undefined;
    const { text, fields, undeclared } = called;
    const keywords = [...fields.keys()];
    const call = this.#callAround(diagnostic);
    const others = [...fields].flatMap(([other, { wire }]) =>
      call === undefined || call.given.has(other) || call.given.has(wire) ? [] : [other]
    );
    const near = nearestNames(name, others, 1);
    const listed = near.length > 0 ? suggestion(near) : `. Its arguments: ${listOf(keywords)}`;
    const evalue = `${text} got an unexpected argument '${name}'${listed}`;
    const isCertain = undeclared === "refused" || isMisspelt(name, others) ||
      (call !== undefined && this.#isIncomplete(call));
    if (!isCertain && undeclared === "allowed") return undefined;
    return { problem: problemAt(diagnostic, "TypeError", evalue), isCertain };
  }

  /** Whether a call lacks an argument, so that an unknown one is probably meant to be it. */
  #isIncomplete(call: Inspection["keywords"][number]): boolean {
    return this.diagnostics.some((one) =>
      one.code === "missing-argument" && this.#callAround(one) === call &&
      this.#missingArgument(one) !== undefined
    );
  }

  /** The innermost call around a finding or an argument. */
  #callAround(argument: CellRange): Inspection["keywords"][number] | undefined {
    return this.inspection.keywords.filter(({ range }) => isWithin(argument, range))
      .reduce<Inspection["keywords"][number] | undefined>(
        (inner, call) => inner && isWithin(inner.range, call.range) ? inner : call,
        undefined,
      );
  }

  #missingArgument(diagnostic: Diagnostic): Verdict | undefined {
    const match = /^No arguments? provided for required parameters? (.*?) of /
      .exec(diagnostic.message);
    const called = this.#called(diagnostic.message);
    const given = this.#callAround(diagnostic)?.given;
    const missing = [...match?.[1]?.matchAll(/`(\w+)`/g) ?? []]
      .flatMap(([, name = ""]) => given?.has(called?.fields.get(name)?.wire ?? "") ? [] : [name]);
    if (called === undefined || missing.length === 0) return undefined;
    const expected = missing.length === 1 ? "a required argument" : "required arguments";
    const names = missing.map((name) => `'${name}'`).join(", ");
    return certain(diagnostic, "TypeError", `${called.text} is missing ${expected}: ${names}`);
  }

  #wrongType(diagnostic: Diagnostic): Verdict | undefined {
    const called = this.#called(diagnostic.message);
    // Argument to function `f` is incorrect: Expected `str`, found `int`
    const [, said = ""] = diagnostic.message.split(": Expected `", 2);
    const [shown = "", found = ""] = said.replace(/`$/, "").split("`, found `", 2);
    if (called === undefined || shown === "") return undefined;
    const line = this.#lines[diagnostic.line] ?? "";
    const name = /^(\w+)\s*=(?!=)/.exec(line.slice(diagnostic.column))?.[1];
    const given = name === undefined ? "an argument" : `argument '${name}'`;
    // The checker abbreviates long types.
    const expected = called.fields.get(name ?? "")?.type ?? shown;
    const wanted = this.#parsed(expected);
    const evalue = name === undefined && called.isTool
      ? `${positional(called)}, not ${readable(found)}`
      : `${called.text}: ${given} takes ${readable(withoutNone(expected))}, not ${readable(found)}`;
    const problem = problemAt(diagnostic, "TypeError", evalue);
    const items = this.#callAround(diagnostic)?.given.get(name ?? "") ?? [];
    // A list may be empty whatever its type, but the literals in a list display are there.
    const types = parseTypes(found).map((type) => type && { ...type, item: undefined });
    const isCertain = excludes(wanted, types) ||
      items.some((item) => excludes(wanted, [{ kind: "list", item: parseTypes(item) }]));
    // Where a dictionary stands for an object, there are findings about its keys.
    const isAccepted = KEYED.test(found) || includes(wanted, parseTypes(found));
    return isCertain || !isAccepted ? { problem, isCertain } : undefined;
  }

  #positional(diagnostic: Diagnostic): Verdict | undefined {
    const called = this.#called(diagnostic.message);
    return called?.isTool ? certain(diagnostic, "TypeError", positional(called)) : undefined;
  }

  /** A loop over an object. */
  #loop(diagnostic: Diagnostic): Verdict | undefined {
    const [, owner = ""] = /^Object of type (`[\w*]+`) is not iterable/.exec(diagnostic.message) ??
      [];
    const { tool, name = "" } = this.#named(owner.replace("*", "")) ?? {};
    const stubbed = tool?.classes.get(name);
    if (stubbed === undefined || stubbed.envelops !== undefined) return undefined;
    const text = `'${name}' object is not iterable. Its fields: ${
      listOf([...stubbed.fields.keys()])
    }`;
    return certain(diagnostic, "TypeError", text);
  }

  /** A key of a dictionary in the place of an object. */
  #unknownKey(diagnostic: Diagnostic): Verdict | undefined {
    const object = this.#object(diagnostic);
    const key = /^Unknown key "(.*?)" for /.exec(diagnostic.message)?.[1];
    if (object === undefined || key === undefined) return undefined;
    const { text, fields, undeclared } = object;
    const keys = [...fields.values()].map(({ wire }) => wire);
    const near = nearestNames(key, keys, 1);
    const listed = near.length > 0 ? suggestion(near) : `. Its fields: ${listOf(keys)}`;
    const isIncomplete = this.diagnostics.some((one) =>
      one.code === "missing-typed-dict-key" && isWithin(diagnostic, one) &&
      this.#object(one)?.text === text
    );
    const isCertain = undeclared === "refused" || isMisspelt(key, keys) || isIncomplete;
    if (!isCertain && undeclared === "allowed") return undefined;
    const problem = problemAt(diagnostic, "TypeError", `${text} has no field '${key}'${listed}`);
    return { problem, isCertain };
  }

  #missingKey(diagnostic: Diagnostic): Verdict | undefined {
    const object = this.#object(diagnostic);
    const key = /^Missing required key '(.*?)' in /.exec(diagnostic.message)?.[1];
    return object === undefined || key === undefined
      ? undefined
      : certain(diagnostic, "TypeError", `${object.text} is missing a required field: '${key}'`);
  }

  /** The class that a dictionary stands for, in a message that ends with it. */
  #object(diagnostic: Diagnostic): Called | undefined {
    const text = / TypedDict (`\w+`)/.exec(diagnostic.message)?.[1] ?? "";
    const { tool, name = "" } = this.#named(text) ?? {};
    const stubbed = tool?.classes.get(name);
    return stubbed && tool &&
      { ...stubbed, text: `${tool.server}.${tool.module}.${name}`, isTool: false };
  }

  #parsed(type: string): Types {
    const types = this.#types.get(type) ?? parseTypes(type);
    this.#types.set(type, types);
    return types;
  }

  async #missingName(diagnostic: Diagnostic): Promise<Verdict | undefined> {
    const { message } = diagnostic;
    const [, module, member = ""] = /^Module `(.*)` has no member `(\w+)`/.exec(message) ?? [];
    if (module !== undefined) {
      return await this.#notInModule(diagnostic, { module, name: member, isImported: false });
    }
    const [, owner = "", name = ""] =
      /^Object of type `([\w*| ]+)` has no attribute `(\w+)`/.exec(message) ?? [];
    if (isSpecial(name) || this.inspection.written.includes(name)) return undefined;
    // None lacks the attribute too, so it decides nothing.
    const owners = owner.split(" | ").filter((type) => type !== "None");
    const verdicts = await Promise.all(
      owners.map((type) => this.#missingIn(diagnostic, type.replace(/\*$/, ""), name)),
    );
    return verdicts.includes(undefined) ? undefined : verdicts[0];
  }

  /** A missing attribute; `undefined` if the type is not from a generated module. */
  async #missingIn(
    diagnostic: Diagnostic,
    owner: string,
    name: string,
  ): Promise<Verdict | undefined> {
    if (owner === "ToolText") {
      return certain(
        diagnostic,
        "AttributeError",
        `'ToolText' object has no attribute '${name}': it is the text that the tool sent. ` +
          "Parse it first, for example with json.loads()",
      );
    }
    const named = this.#named(`\`${owner}\``);
    if (named === undefined) return undefined;
    const { tool, name: className } = named;
    const path = `mcptools.${tool.server}.${tool.module}`;
    if (className === "Tool") {
      return await this.#notInModule(diagnostic, { module: path, name, isImported: false });
    }
    const stubbed = tool.classes.get(className);
    if (stubbed === undefined || this.#isWritten(tool)) return undefined;
    const declared = [...stubbed.fields.keys()];
    if (stubbed.undeclared === "allowed" && !isMisspelt(name, declared)) return undefined;
    const value = stubbed.envelops;
    const near = nearestNames(name, declared, 1);
    const listed = near.length > 0
      ? suggestion(near)
      : value === undefined
      ? `. Its fields: ${listOf(declared)}`
      : `. Use it like the value it contains: ${readable(value)}`;
    const text = `'${className}' object has no attribute '${name}'${listed}`;
    return certain(diagnostic, "AttributeError", text);
  }

  /** Whether code may have assigned to fields of a tool's classes. */
  #isWritten({ classes }: StubbedTool): boolean {
    return this.inspection.written.some((name) =>
      [...classes.values()].some(({ fields }) => fields.has(name))
    );
  }

  async #notInModule(
    diagnostic: Diagnostic,
    { module, name, isImported }: {
      readonly module: string;
      readonly name: string;
      readonly isImported: boolean;
    },
  ): Promise<Verdict | undefined> {
    if (!/^mcptools(\.|$)/.test(module) || name === "" || isSpecial(name)) return undefined;
    const problem = isImported
      ? { ename: "ImportError", evalue: `cannot import name '${name}' from '${module}'` }
      : { ename: "AttributeError", evalue: `module '${module}' has no attribute '${name}'` };
    return await this.#unlisted(diagnostic, { ...problem, module, name });
  }

  async #notFound(
    diagnostic: Diagnostic,
    path = "",
  ): Promise<Verdict | undefined> {
    const dot = path.lastIndexOf(".");
    if (dot < 1) return undefined;
    const [module, name] = [path.slice(0, dot), path.slice(dot + 1)];
    const evalue = `No module named '${path}'`;
    return await this.#unlisted(diagnostic, { ename: "ModuleNotFoundError", evalue, module, name });
  }

  /** Calls can make servers add tools: certain only if no call comes before, or if the name looks misspelt. */
  async #unlisted(
    diagnostic: Diagnostic,
    { ename, evalue, module, name }: {
      readonly ename: string;
      readonly evalue: string;
      readonly module: string;
      readonly name: string;
    },
  ): Promise<Verdict | undefined> {
    if (await this.names.isAdded(module, name)) return undefined;
    const members = await this.names.members(module);
    const [line, column] = this.inspection.calls ?? [Infinity, 0];
    const isFirst = !isBefore(line, column, diagnostic.line, diagnostic.column);
    const isCertain = module === "mcptools" || isFirst || isMisspelt(name, members);
    const near = nearestNames(name, members, 1)
      .map((near) => ename === "ModuleNotFoundError" ? `${module}.${near}` : near);
    const all = module === "mcptools" ? ` Registered servers: ${listOf(members)}` : "";
    const hint = near.length === 0 && all !== "" ? "." : suggestion(near);
    return { problem: problemAt(diagnostic, ename, evalue + hint + all), isCertain };
  }

  /** The function or class that a message is about. */
  #called(message: string): Called | undefined {
    const [, callee = ""] =
      /(?: of |^Argument to |^Too many positional arguments to )(?:function )?(`[\w.]+`)/
        .exec(message) ?? [];
    const named = this.#named(callee);
    if (named === undefined) return undefined;
    const { tool, name } = named;
    const isTool = /^run(_json)?(_async)?$/.test(name);
    if (this.inspection.written.includes(name)) return undefined; // it may have been replaced
    const text = isTool ? `${tool.server}.${tool.module}.${name}()` : `${name}()`;
    const className = isTool ? "Params" : name;
    const stubbed = tool.classes.get(className);
    return stubbed && { ...stubbed, text, isTool };
  }

  #named(text: string): { tool: StubbedTool; name: string } | undefined {
    const [, id, name] = NAME.exec(text) ?? [];
    const tool = id === undefined ? undefined : this.names.tool(Number(id));
    if (tool === undefined || name === undefined) return undefined;
    return this.inspection.written.includes(tool.module) ? undefined : { tool, name }; // it may be replaced
  }
}

function positional({ text, fields }: Called): string {
  const names = listOf([...fields.keys()]);
  return `${text} takes its arguments (${names}) as keywords, or all of them as Params`;
}

/** The common part of numbered names: one of them is no misspelling of another. */
function withoutDigits(name: string): string {
  return name.replaceAll(/\d/g, "");
}

/** Whether a name is private: objects have such names, generated classes declare none. */
function isSpecial(name: string): boolean {
  return name.startsWith("_");
}

function certain(range: CellRange, ename: string, evalue: string): Verdict {
  return { problem: problemAt(range, ename, evalue), isCertain: true };
}

function problemAt(range: CellRange, ename: string, evalue: string): CodeProblem {
  const { line, column, endLine, endColumn } = range;
  return { line, column, endLine, endColumn, ename, evalue };
}

function suggestion(names: readonly string[]): string {
  return names.length === 0 ? "" : `. Did you mean: '${names[0]}'?`;
}

/** Nobody reads more names in an error. */
const MAX_LISTED = 20;

function listOf(names: readonly string[]): string {
  if (names.length === 0) return "none";
  const more = names.length > MAX_LISTED ? ", …" : "";
  return names.slice(0, MAX_LISTED).join(", ") + more;
}

/** A type without the `None` that only means that the argument can be omitted. */
function withoutNone(type: string): string {
  return type.replace(/ \| None$/, "");
}

/** A type as it is named in its tool's module. */
function readable(type: string): string {
  const text = split(type, " | ")
    .map((part) =>
      part.replace(/^Literal\[(.*)\]$/s, (_, values) => split(values, ", ").join(" | "))
    )
    .join(" | ")
    .replaceAll(EACH_KEYED, "dict[str, Any]")
    .replaceAll(/\bMcp\d+_|\*$/g, "");
  return text.length <= 200 ? text : `${text.slice(0, 199)}…`;
}

function isWithin(inner: CellRange, outer: CellRange): boolean {
  return !isBefore(inner.line, inner.column, outer.line, outer.column) &&
    !isBefore(outer.endLine, outer.endColumn, inner.endLine, inner.endColumn);
}

function isBefore(line: number, column: number, otherLine: number, otherColumn: number): boolean {
  return line < otherLine || (line === otherLine && column < otherColumn);
}

/** Whether a finding is about a whole call with positional arguments, or about an unpacked one. */
function isSpread(said: CellRange, place: CellRange): boolean {
  return said.endLine === place.endLine && said.endColumn === place.endColumn &&
    said.line === place.line && said.column <= place.column && said.column >= place.column - 2;
}

// Types as the checker writes them. An error is certain if it holds for every type of the value.

/** A kind of value. `ACCEPTED` says which kinds fit which. */
type Kind = "str" | "int" | "float" | "bool" | "None" | "list" | "dict" | "model";

/** The kinds of values that the runtime accepts for each kind of argument. */
const ACCEPTED: Readonly<Record<Kind, readonly Kind[]>> = {
  str: ["str"],
  int: ["int", "float"], // 5.0 is an integer
  float: ["int", "float"],
  bool: ["bool"],
  None: ["None"],
  list: ["list"],
  dict: ["dict", "model"],
  model: ["dict", "model"],
};

/** Whether no value of the given types fits the wanted ones. */
function excludes(wanted: Types, given: Types): boolean {
  return given.every((one) =>
    one !== undefined && wanted.every((want) => want !== undefined && !accepts(want, one))
  );
}

/** Whether dictionaries that stand for objects are the checker's only objection to a value. */
function includes(wanted: Types, given: Types): boolean {
  return given.every((one) => one !== undefined && wanted.some((want) => fits(want, one)));
}

function fits(want: ParsedType | undefined, given: ParsedType): boolean {
  if (want === undefined) return false;
  if (want.kind === "model") return given.kind === "dict" || given.kind === "model";
  const isList = want.kind === "list" && given.kind === "list";
  if (!isList) return want.kind === "None" && given.kind === "None";
  return want.item !== undefined && given.item !== undefined && includes(want.item, given.item);
}

interface ParsedType {
  readonly kind: Kind;
  /** The only possible values, as source text. */
  readonly values?: ReadonlySet<string>;
  /** The type of all items of a wanted list, or of one item of a given one. */
  readonly item?: Types;
}

/** The members of a union; `undefined` for unknown types. */
type Types = readonly (ParsedType | undefined)[];

function accepts(want: ParsedType, given: ParsedType): boolean {
  if (!ACCEPTED[want.kind].includes(given.kind)) return false;
  if (want.item !== undefined && given.item !== undefined) {
    return !excludes(want.item, given.item);
  }
  if (want.values === undefined || given.values === undefined) return true;
  return !want.values.isDisjointFrom(given.values);
}

function parseTypes(text: string): Types {
  return split(text, " | ").flatMap((part) => parseType(part.replace(/\*$/, "")));
}

function parseType(text: string): ParsedType | undefined | Types {
  if (text in ACCEPTED && text !== "model") return { kind: text as Kind };
  const [, head, inner = ""] = /^(\w+)\[(.*)\]$/s.exec(text) ?? [];
  if (head === "list") return { kind: head, item: parseTypes(inner) };
  if (head === "dict") return { kind: head };
  if (head === "Literal") return parseLiteral(split(inner, ", "));
  if (text === "ToolText" || text === "LiteralString") return { kind: "str" };
  return /^Mcp\d+_\w+$/.test(text) ? { kind: "model" } : undefined;
}

/** Parses `Literal` values. Values that may be escaped in several ways widen to their kind. */
function parseLiteral(values: readonly string[]): Types {
  return [...Map.groupBy(values, literalKind)].map(([kind, values]) =>
    kind &&
    (values.every((value) => /^[ !#-[\]-~]*$/.test(value.replaceAll(/^"|"$/g, "")))
      ? { kind, values: new Set(values) }
      : { kind })
  );
}

function literalKind(value: string): Kind | undefined {
  if (/^"(?:[^"\\]|\\.)*"$/s.test(value)) return "str";
  if (/^-?\d+$/.test(value)) return "int";
  return value === "True" || value === "False" ? "bool" : undefined;
}

/** Splits text at a separator outside of brackets and quotes. */
function split(text: string, separator: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let start = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const char = text[at] ?? "";
    if (quoted) {
      if (char === "\\") at++;
      else if (char === '"') quoted = false;
    } else if (char === '"') quoted = true;
    else if ("[(".includes(char)) depth++;
    else if ("])".includes(char)) depth--;
    else if (depth === 0 && text.startsWith(separator, at)) {
      parts.push(text.slice(start, at));
      at += separator.length - 1;
      start = at + 1;
    }
  }
  return [...parts, text.slice(start)];
}
