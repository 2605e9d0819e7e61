/**
 * What is wrong with a cell: which of the checker's findings are certain, and how they read.
 *
 * @module
 */
import type { StubbedClass, StubbedTool } from "../apigen/stubs.ts";
import { isMisspelt, nearestNames } from "../base/nearest.ts";
import type { CellRange, Diagnostic } from "./language_server.ts";
import { FairTurns } from "../base/signals.ts";
import type { Look } from "./look.ts";

/** Something that is wrong with code, as Python would say it when it runs. */
export interface CodeProblem extends CellRange {
  /** The class of the exception, such as `"TypeError"`. */
  readonly ename: string;
  /** Its message, with the nearest right name where there is one. */
  readonly evalue: string;
}

/** What the names in a checker's messages stand for. */
export interface KnownNames {
  /** A tool by its number. */
  tool(id: number): StubbedTool | undefined;
  /** The names in a module of `mcptools`: servers, tools, or what a tool's module has. */
  members(module: string): Promise<readonly string[]>;
  /** Whether a name is in a module that the person changed. */
  isAdded(module: string, name: string): Promise<boolean>;
}

/** What was found: `certain` fails whenever it runs, `possible` may be right. */
export interface Findings {
  readonly certain: readonly CodeProblem[];
  readonly possible: readonly CodeProblem[];
}

/** Names that code used before anything set them. */
export function undefinedNames({ undefined: names, guarded }: Look): CodeProblem[] {
  return names.filter(({ range }) => !guarded.some((place) => isWithin(range, place)))
    .map(({ name, near, range }) => ({
      ...range,
      ename: "NameError",
      evalue: `name '${name}' is not defined${suggestion(near === null ? [] : [near])}`,
    }));
}

/** Tells what the checker found about generated modules from all else that it said. */
export async function judge(
  diagnostics: readonly Diagnostic[],
  look: Look,
  { names, signal }: { readonly names: KnownNames; readonly signal: AbortSignal },
): Promise<Findings> {
  const certain: CodeProblem[] = [];
  const possible: CodeProblem[] = [];
  const said = diagnostics.filter((one) => !look.loose.some((place) => isSpread(one, place)));
  const reader = new Reader(said, look, names);
  const turns = new FairTurns();
  for (const diagnostic of said) {
    await turns.giveWay(); // servers' types can be long
    signal.throwIfAborted();
    const verdict = await reader.read(diagnostic);
    if (verdict === undefined) continue;
    const isGuarded = look.guarded.some((place) => isWithin(diagnostic, place));
    const { problem, isCertain } = verdict;
    (isCertain && !isGuarded ? certain : possible).push(problem);
  }
  return { certain, possible };
}

/** A function or class of a tool's module. */
interface Called extends StubbedClass {
  readonly text: string;
}

interface Verdict {
  readonly problem: CodeProblem;
  readonly isCertain: boolean;
}

/** A name in a stub: the number of the tool, and which of its names. */
const NAME = /`mcp(\d+)_(\w+?)(?:__\d+)?(?:\.__init__)?`/i;
/** A module of `mcptools`. */
const MODULE = /`(mcptools(?:\.\w+)*)`/;

class Reader {
  readonly #lines: readonly string[];
  readonly #types = new Map<string, Types>();

  constructor(
    readonly diagnostics: readonly Diagnostic[],
    readonly look: Look,
    readonly names: KnownNames,
  ) {
    this.#lines = look.text.split("\n");
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

  /** Whether a call lacks an argument, in the place of which there may be another. */
  #isIncomplete(call: Look["keywords"][number]): boolean {
    return this.diagnostics.some((one) =>
      one.code === "missing-argument" && this.#callAround(one) === call &&
      this.#missingArgument(one) !== undefined
    );
  }

  /** The call that something is said of, or of an argument of which. */
  #callAround(argument: CellRange): Look["keywords"][number] | undefined {
    return this.look.keywords.filter(({ range }) => isWithin(argument, range))
      .reduce<Look["keywords"][number] | undefined>(
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
    const what = missing.length === 1 ? "a required argument" : "required arguments";
    const names = missing.map((name) => `'${name}'`).join(", ");
    return certain(diagnostic, "TypeError", `${called.text} is missing ${what}: ${names}`);
  }

  #wrongType(diagnostic: Diagnostic): Verdict | undefined {
    const called = this.#called(diagnostic.message);
    // Argument to function `f` is incorrect: Expected `str`, found `int`
    const [, said = ""] = diagnostic.message.split(": Expected `", 2);
    const [shown = "", found = ""] = said.replace(/`$/, "").split("`, found `", 2);
    if (called === undefined || shown === "") return undefined;
    const line = this.#lines[diagnostic.line] ?? "";
    const name = /^(\w+)\s*=(?!=)/.exec(line.slice(diagnostic.column))?.[1];
    const what = name === undefined ? "an argument" : `argument '${name}'`;
    // What the checker says of a type leaves out the most of a long one.
    const expected = called.fields.get(name ?? "")?.type ?? shown;
    const problem = problemAt(
      diagnostic,
      "TypeError",
      `${called.text}: ${what} takes ${readable(withoutNone(expected))}, not ${readable(found)}`,
    );
    const items = this.#callAround(diagnostic)?.given.get(name ?? "") ?? [];
    // A list that is given may be empty, whatever its type; what is written out in it is there.
    const types = parseTypes(found).map((type) => type && { ...type, item: undefined });
    const wanted = this.#parsed(expected);
    const isCertain = excludes(wanted, types) ||
      items.some((item) => excludes(wanted, [{ kind: "list", item: parseTypes(item) }]));
    return { problem, isCertain };
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
    if (isSpecial(name) || this.look.written.includes(name)) return undefined;
    // None has no such name either.
    const owners = owner.split(" | ").filter((type) => type !== "None");
    const verdicts = await Promise.all(
      owners.map((type) => this.#missingIn(diagnostic, type.replace(/\*$/, ""), name)),
    );
    return verdicts.includes(undefined) ? undefined : verdicts[0];
  }

  /** A name that values of a type do not have; `undefined` where the type is not of a generated module. */
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

  /** Whether code may have put other values in the fields of a tool's classes. */
  #isWritten({ classes }: StubbedTool): boolean {
    return this.look.written.some((name) =>
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
    path: string | undefined,
  ): Promise<Verdict | undefined> {
    const [, module, name = ""] = /^(.+)\.(.*)$/.exec(path ?? "") ?? [];
    if (module === undefined) return undefined;
    const evalue = `No module named '${path}'`;
    return await this.#unlisted(diagnostic, { ename: "ModuleNotFoundError", evalue, module, name });
  }

  /**
   * A server or a tool that is not there. A tool can come while the code runs, by what that calls: so
   * it is certain only where nothing was called before, or where the name looks like another one.
   */
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
    const [line, column] = this.look.calls ?? [Infinity, 0];
    const isFirst = !isBefore(line, column, diagnostic.line, diagnostic.column);
    const isCertain = module === "mcptools" || isFirst || isMisspelt(name, members);
    const near = nearestNames(name, members, 1)
      .map((near) => ename === "ModuleNotFoundError" ? `${module}.${near}` : near);
    return { problem: problemAt(diagnostic, ename, evalue + suggestion(near)), isCertain };
  }

  /** The function or class that a message is about, and its keywords. */
  #called(message: string): Called | undefined {
    const [, callee = ""] = /(?: of (?:function )?|^Argument to (?:function )?)(`[\w.]+`)/
      .exec(message) ?? [];
    const named = this.#named(callee);
    if (named === undefined) return undefined;
    const { tool, name } = named;
    const isTool = /^run(_json)?(_async)?$/.test(name);
    if (this.look.written.includes(name)) return undefined; // it may be another function
    const text = isTool ? `${tool.server}.${tool.module}.${name}()` : `${name}()`;
    const className = isTool ? "Params" : name;
    const stubbed = tool.classes.get(className);
    return stubbed && { ...stubbed, text };
  }

  #named(text: string): { tool: StubbedTool; name: string } | undefined {
    const [, id, name] = NAME.exec(text) ?? [];
    const tool = id === undefined ? undefined : this.names.tool(Number(id));
    return tool === undefined || name === undefined ? undefined : { tool, name };
  }
}

/** Every object has some of these, and no tool has one. */
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

/** More names than somebody reads in an error. */
const MAX_LISTED = 20;

function listOf(names: readonly string[]): string {
  if (names.length === 0) return "none";
  const more = names.length > MAX_LISTED ? ", …" : "";
  return names.slice(0, MAX_LISTED).join(", ") + more;
}

/** What a person would say that an argument takes: it can be left out. */
function withoutNone(type: string): string {
  return type.replace(/ \| None$/, "");
}

/** A type as its tool's module names it. */
function readable(type: string): string {
  const text = split(type, " | ")
    .map((part) =>
      part.replace(/^Literal\[(.*)\]$/s, (_, values) => split(values, ", ").join(" | "))
    )
    .join(" | ")
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

/** Whether something is said of a whole call with positional arguments, or of an unpacked one. */
function isSpread(said: CellRange, place: CellRange): boolean {
  return said.endLine === place.endLine && said.endColumn === place.endColumn &&
    said.line === place.line && said.column <= place.column && said.column >= place.column - 2;
}

// Types, as the checker writes them: a certain error is one that holds for each that a value may have.

/** Values that no argument of another kind accepts. */
type Kind = "str" | "int" | "float" | "bool" | "None" | "list" | "dict" | "model";

/** What the runtime accepts for each kind of argument. */
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

/** Whether a type takes no value of any of others. */
function excludes(wanted: Types, given: Types): boolean {
  return given.every((one) =>
    one !== undefined && wanted.every((want) => want !== undefined && !accepts(want, one))
  );
}

interface ParsedType {
  readonly kind: Kind;
  /** The only values, as they are written. */
  readonly values?: ReadonlySet<string>;
  /** Of a list's items the types that all must have, or that one has. */
  readonly item?: Types;
}

/** The members of a type; `undefined` is one of which nothing is known. */
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

/** Reads listed values. Those that can be spelled in several ways stand for all of their kind. */
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

/** Splits a text where it is not in brackets or quotes. */
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
