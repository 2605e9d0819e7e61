/**
 * Stubs of generated modules for a type checker: only what a tool declares is there, and every name
 * says of which tool it is.
 *
 * @module
 */
import { isObject, type JsonObject } from "./json.ts";
import type { ClassDefinition, Definition, Field, ModuleModel, PyType } from "./model.ts";
import type { ModuleOrigin } from "./module_builder.ts";
import type { PackageTool } from "./package.ts";
import { literal } from "./python.ts";
import { modelOf } from "./signature.ts";
import { hasLiteralBase } from "./value_types.ts";

/** What a checker's messages can name of a tool. */
export interface StubbedTool extends ModuleOrigin {
  /** The keywords of its function. */
  readonly parameters: readonly string[];
  /** The fields of its classes. */
  readonly fields: ReadonlyMap<string, readonly string[]>;
}

/** A module's stub, and what is in it. */
export interface Stub {
  readonly text: string;
  readonly tool: StubbedTool;
}

/** Renders the stub of a tool's module. Its names begin with `Mcp` and its number. */
export function stubOfModule(
  origin: ModuleOrigin,
  { definition, results }: Pick<PackageTool, "definition" | "results">,
  id: number,
): Stub {
  const model = modelOf(origin, definition, results);
  const stub = new ModuleStub(model, `Mcp${id}_`, isClosed(definition));
  return { text: stub.text(), tool: { ...origin, ...stub.names() } };
}

/** Renders the stub of a server's package, with the numbers of its modules. */
export function stubOfPackage(modules: ReadonlyMap<string, number>): string {
  const lines = [
    "from typing import Any",
    "from ipybox_runtime import ToolRunner",
    ...[...modules].map(([module, id]) => `from .${module} import Mcp${id}_Tool as _Tool${id}`),
    "CLIENT: ToolRunner",
    ...["prompts", "resources"].filter((name) => !modules.has(name)).map((name) => `${name}: Any`),
    ...[...modules].map(([module, id]) => `${module}: _Tool${id}`),
  ];
  return lines.join("\n") + "\n";
}

/** Whether a tool says which arguments it has. One that says nothing takes any. */
function isClosed(definition: JsonObject): boolean {
  const schema = definition.get("inputSchema");
  if (!isObject(schema) || !isObject(schema.get("properties"))) return false;
  return schema.get("additionalProperties") !== true && !schema.has("patternProperties");
}

/** Bases whose values behave like something else, and have its names. */
const OPEN_BASES: ReadonlySet<string> = new Set(["ResultMapping", "ResultValue"]);

class ModuleStub {
  readonly #model: ModuleModel;
  readonly #prefix: string;
  readonly #isClosed: boolean;

  constructor(model: ModuleModel, prefix: string, closed: boolean) {
    this.#model = model;
    this.#prefix = prefix;
    this.#isClosed = closed;
  }

  names(): Pick<StubbedTool, "parameters" | "fields"> {
    const classes = this.#model.definitions.filter((part) => part.kind === "class");
    const fields = classes.map((part) => [part.name, part.fields.map(({ name }) => name)] as const);
    return { parameters: this.#params().map(({ name }) => name), fields: new Map(fields) };
  }

  text(): string {
    const { definitions, returns, observed } = this.#model;
    const prefix = this.#prefix.toLowerCase();
    const run = `${prefix}run`;
    const result = returns === "result" ? `${this.#prefix}Result` : "ToolText";
    // What results were like proves nothing: code that expects another one may be right.
    const functions = new Map([
      ["run", result],
      ...observed === undefined ? [] : [["run_json", "Any"] as const],
    ]);
    const keywords = this.#keywords(this.#params(), !this.#isClosed);
    const names = [...functions.keys()].flatMap((name) => [name, `${name}_async`]);
    const members = [
      ...names.map((name) => [name, `staticmethod(${prefix}${name})`]),
      ...definitions.map(({ name }) => [name, this.#prefix + name]),
    ];
    return [
      "from typing import Any, Literal",
      "from ipybox_runtime.models import (",
      "    InputModel, OutputModel, ResultMapping, ResultModel, ResultRoot, ResultValue, ToolText,",
      ")",
      "from . import CLIENT as CLIENT",
      ...definitions.map((definition) => this.#definition(definition)),
      ...[...functions].flatMap(([name, result]) => [
        `def ${prefix}${name}(${keywords}) -> ${result}: ...`,
        `async def ${prefix}${name}_async(${keywords}) -> ${result}: ...`,
      ]),
      ...names.map((name) => `${name} = ${prefix}${name}`),
      ...definitions.map(({ name }) => `${name} = ${this.#prefix}${name}`),
      `class ${this.#prefix}Tool:`,
      "    CLIENT: Any",
      `    __call__ = staticmethod(${run})`,
      ...members.map(([name, value]) => `    ${name} = ${value}`),
    ].join("\n") + "\n";
  }

  #params(): readonly Field[] {
    const params = this.#model.definitions.find(({ name }) => name === "Params");
    return params?.kind === "class" ? params.fields : [];
  }

  #definition(definition: Definition): string {
    const name = this.#prefix + definition.name;
    switch (definition.kind) {
      case "values":
        return `${name} = ${this.#type(definition.type)}`;
      case "alias": // it refers to itself
        return `${name} = Any`;
      case "root":
        return `class ${name}(ResultRoot[${this.#type(definition.type)}]): ...`;
      case "class":
        return this.#class(name, definition);
    }
  }

  #class(name: string, { base, fields, extra }: ClassDefinition): string {
    if (OPEN_BASES.has(base)) return `${name} = ${base}`;
    const isInput = base === "InputModel" || base === "CheckedModel";
    const lines = fields.map((field) => `${field.name}: ${this.#optional(field)}`);
    if (isInput) {
      const isOpen = extra !== undefined || (definedBy(name, "Params") && !this.#isClosed);
      lines.push(`def __init__(self, ${this.#keywords(fields, isOpen)}) -> None: ...`);
    } else if (extra !== undefined) {
      lines.push("def __getattr__(self, name: str) -> Any: ...");
    }
    const head = `class ${name}(${isInput ? "InputModel" : base}):`;
    return [head, ...lines.map((line) => `    ${line}`), "    ..."].join("\n");
  }

  /** Also one object, for what is not given by keywords is not looked at here. */
  #keywords(fields: readonly Field[], isOpen: boolean): string {
    const keywords = fields.map((field) =>
      `${field.name}: ${this.#optional(field)}${field.required ? "" : " = ..."}`
    );
    // A field whose own name Python takes, too, can be given by either.
    const takesOther = isOpen || fields.some(({ name, wire }) => name !== wire);
    return [
      "_: Any = ...",
      "/",
      ...(keywords.length > 0 ? ["*", ...keywords] : []),
      ...(takesOther ? ["**others: Any"] : []),
    ].join(", ");
  }

  #optional({ type, required }: Field): string {
    return required ? this.#type(type) : `${this.#type(type)} | None`;
  }

  #type(type: PyType): string {
    switch (type.kind) {
      case "name":
        return NAMES[type.name];
      case "class":
        return this.#named(type.name);
      case "literal":
        return `Literal[${type.values.map(literal).join(", ")}]`;
      case "oneOf":
        return hasLiteralBase(type.values)
          ? `Literal[${type.values.map(literal).join(", ")}]`
          : "Any";
      case "list":
        return `list[${this.#type(type.item)}]`;
      case "dict":
        return `dict[str, ${this.#type(type.value)}]`;
      case "tuple":
        return `tuple[${type.items.map((item) => this.#type(item)).join(", ")}] | list[Any]`;
      case "union":
        return type.members.map((member) => this.#type(member)).join(" | ");
      case "annotated":
        return this.#type(type.base);
    }
  }

  /** What takes the place of a class: of arguments, also a dictionary. */
  #named(name: string): string {
    const definition = this.#model.definitions.find((part) => part.name === name);
    if (definition?.kind === "class" && /^(Input|Checked)Model$/.test(definition.base)) {
      return `${this.#prefix}${name} | dict[str, Any]`;
    }
    return this.#prefix + name;
  }
}

function definedBy(name: string, own: string): boolean {
  return name.endsWith(`_${own}`);
}

const NAMES = {
  str: "str",
  Int: "int",
  Num: "float",
  Bool: "bool",
  None: "None",
  Null: "None",
  Any: "Any",
  Never: "Any",
} as const;
