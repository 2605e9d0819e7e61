/**
 * Stubs of generated modules for the type checker. They contain only what tools declare, and every
 * name identifies its tool.
 *
 * @module
 */
import {
  ANY,
  type ClassDefinition,
  classNamed,
  type Definition,
  type Field,
  mapParts,
  type ModuleModel,
  type ModuleOrigin,
  NEVER,
  partsOf,
  type PyType,
} from "./model.ts";
import { modelOf } from "./module_builder.ts";
import { KEYWORDS } from "./names.ts";
import type { PackageTool } from "./package.ts";
import { classText, joined, literal } from "./python.ts";
import { oneOfBase, plain, typeText } from "./value_types.ts";

/** The names of a tool that the checker's messages can contain. */
export interface StubbedTool extends ModuleOrigin {
  /** The names in its module. */
  readonly members: readonly string[];
  /** Its classes. The fields of `Params` are the function's keywords. */
  readonly classes: ReadonlyMap<string, StubbedClass>;
}

export interface StubbedClass {
  readonly fields: ReadonlyMap<string, StubbedField>;
  /** The schema's rule for undeclared fields. */
  readonly undeclared: "refused" | "allowed" | "unsaid";
  /** For an envelope, the type of its value. */
  readonly envelops: string | undefined;
}

/** A field of a class, or an argument. */
interface StubbedField {
  /** Its name in JSON, which Python accepts too. */
  readonly wire: string;
  readonly type: string;
}

/** Lists of values that are longer, in characters, are written once: many fields may have them. */
const MAX_REPEATED = 1000;

/** A module's stub and its names. */
interface Stub {
  readonly text: string;
  readonly tool: StubbedTool;
}

/** Renders the stub of a tool's module. Its names start with `Mcp` and the tool's id. */
export function stubOfModule(
  origin: ModuleOrigin,
  { definition, results }: Pick<PackageTool, "definition" | "results">,
  id: number,
): Stub {
  const model = modelOf(origin, definition, results);
  const stub = new ModuleStub(model, `Mcp${id}_`);
  const tool = { ...origin, members: stub.members(), classes: stub.classes() };
  return { text: stub.text(), tool };
}

/** Renders the stub of a server's package from the ids of its modules. */
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

class ModuleStub {
  readonly #model: ModuleModel;
  readonly #prefix: string;
  readonly #definitions: ReadonlyMap<string, Definition>;

  constructor(model: ModuleModel, prefix: string) {
    this.#model = model;
    this.#definitions = new Map(model.definitions.map((part) => [part.name, part]));
    this.#prefix = prefix;
  }

  classes(): Map<string, StubbedClass> {
    const classes = this.#model.definitions.filter((part) => part.kind === "class");
    return new Map(classes.map((part) => [part.name, this.#stubbed(part)]));
  }

  #stubbed({ base, fields, closed, open }: ClassDefinition): StubbedClass {
    const undeclared = closed ? "refused" : open ? "allowed" : "unsaid";
    const stubbed = fields.map((field) =>
      [field.name, { wire: field.wire, type: this.#optional(field) }] as const
    );
    const [value] = base === "ResultValue" ? fields : [];
    return { fields: new Map(stubbed), undeclared, envelops: value && this.#type(value.type) };
  }

  members(): string[] {
    return ["CLIENT", ...this.#functions(), ...this.#model.definitions.map(({ name }) => name)];
  }

  #functions(): string[] {
    const own = this.#model.observed === undefined ? ["run"] : ["run", "run_json"];
    return own.flatMap((name) => [name, `${name}_async`]);
  }

  text(): string {
    const { definitions, returns, observed } = this.#model;
    const prefix = this.#prefix.toLowerCase();
    const result = returns === "result" ? `${this.#prefix}Result` : "ToolText";
    // Observed results are not reliable: code that expects other ones may be right.
    const functions = new Map([
      ["run", result],
      ...observed === undefined ? [] : [["run_json", "Any"] as const],
    ]);
    const keywords = this.#keywords(classNamed(this.#model, "Params"));
    const own = this.#functions().map((name) => [name, prefix + name]);
    const classes = definitions.map(({ name }) => `${name} = ${this.#prefix}${name}`);
    return [
      "from typing import Any, Literal, Required, TypedDict",
      "from ipybox_runtime.models import (",
      "    InputModel, KnownValue, OutputModel, ResultMapping, ResultModel, ResultRoot, ResultValue,",
      "    ToolText,",
      ")",
      "from . import CLIENT as CLIENT",
      ...definitions.map((definition) => this.#definition(definition)),
      ...[...functions].flatMap(([name, result]) => [
        `def ${prefix}${name}(${keywords}) -> ${result}: ...`,
        `async def ${prefix}${name}_async(${keywords}) -> ${result}: ...`,
      ]),
      ...own.map(([name, text]) => `${name} = ${text}`),
      ...classes,
      classText(`${this.#prefix}Tool`, [
        "CLIENT: Any",
        `__call__ = staticmethod(${prefix}run)`,
        ...own.map(([name, text]) => `${name} = staticmethod(${text})`),
        ...classes,
      ]),
    ].join("\n") + "\n";
  }

  #definition(definition: Definition): string {
    const name = this.#prefix + definition.name;
    switch (definition.kind) {
      case "values":
        return `${name} = ${this.#type(definition.type)}`;
      case "alias":
        return `${name} = Any`;
      case "root":
        return `class ${name}(ResultRoot[${this.#type(definition.type)}]): ...`;
      case "class":
        return this.#class(name, definition);
    }
  }

  #class(name: string, definition: ClassDefinition): string {
    const { base, fields } = definition;
    if (base === "ResultMapping") return `${name} = ${base}`;
    if (base === "ResultValue") return this.#value(name, fields);
    const isInput = isInputClass(definition);
    const lines = fields.map((field) => `${field.name}: ${this.#optional(field)}`);
    if (isInput) lines.push(`def __init__(self, ${this.#keywords(definition)}) -> None: ...`);
    const text = classText(`${name}(${isInput ? "InputModel" : base})`, [...lines, "..."]);
    return isInput && this.#isKeyed(definition) ? `${text}\n${this.#dictionary(definition)}` : text;
  }

  /** The type of dictionaries that stand for an object. A key can be the name in Python or in JSON. */
  #dictionary({ name, fields }: ClassDefinition): string {
    const names = new Set(fields.map((field) => field.wire));
    const items = fields.flatMap((field) => {
      const type = this.#optional(field, true);
      const isEither = field.name !== field.wire && !names.has(field.name);
      if (isEither) return [`${literal(field.wire)}: ${type}`, `${literal(field.name)}: ${type}`];
      return [`${literal(field.wire)}: ${field.required ? `Required[${type}]` : type}`];
    });
    const own = `${this.#prefix}${name}__dict`;
    return `${own} = TypedDict(${literal(own)}, {${items.join(", ")}}, total=False)`;
  }

  /** Whether the keys of dictionaries that stand for an object are checked. */
  #isKeyed({ fields, closed }: ClassDefinition): boolean {
    return fields.length > 0 || closed;
  }

  /** An envelope, which also has the attributes of its value. */
  #value(name: string, [field]: readonly Field[]): string {
    const bases = field === undefined
      ? []
      : membersOf(field.type).map((type) => this.#baseOf(type));
    const isKnown = field !== undefined && bases.every((base) => base !== undefined);
    if (!isKnown) return `${name} = ResultValue`;
    const line = `${field.name}: ${this.#type(field.type)}`;
    const names = bases.map((_, at) => `${name}__${at}`);
    const parts = bases.map((base, at) => classText(`${names[at]}(KnownValue, ${base})`, [line]));
    return [...parts, `${name} = ${names.join(" | ")}`].join("\n");
  }

  /** The class of all values of a type, if there is a single one. */
  #baseOf(type: PyType): string | undefined {
    switch (type.kind) {
      case "list":
      case "dict":
        return this.#type(type);
      case "name":
        return { str: "str", Int: "int", Bool: "int" }[type.name as string];
      case "class": {
        const definition = classNamed(this.#model, type.name);
        return definition?.open === false ? this.#prefix + type.name : undefined;
      }
      default:
        return undefined;
    }
  }

  /** The parameters of a function, or of a class, to which nothing is passed by position. */
  #keywords(definition: ClassDefinition | undefined): string {
    const { fields, closed } = definition ?? { fields: [], closed: false };
    const params = definition?.name === "Params" ? `${this.#named("Params", true)} | None` : "Any";
    const names = new Set(fields.map(({ name }) => name));
    const keywords = fields.flatMap((field) => {
      const type = this.#optional(field, true);
      const keyword = `${field.name}: ${type}${field.required ? "" : " = ..."}`;
      // The name in JSON works too, if it can be a keyword.
      const isEither = !names.has(field.wire) && isKeyword(field.wire);
      return isEither ? [keyword, `${field.wire}: ${type} = ...`] : [keyword];
    });
    // Without declared fields, any keyword is accepted.
    const takesOthers = fields.length === 0 && !closed;
    return [
      `_: ${params} = ...`,
      "/",
      ...(keywords.length > 0 ? ["*", ...keywords] : []),
      ...(takesOthers ? ["**others: Any"] : []),
    ].join(", ");
  }

  #optional({ type, required }: Field, isKeyed = false): string {
    const text = this.#type(type, isKeyed);
    return required || / \| None$/.test(text) ? text : `${text} | None`;
  }

  /** The stub's type; in a keyed one, dictionaries that stand for objects have only their keys. */
  #type(type: PyType, isKeyed = false): string {
    return typeText(this.#stubType(type, isKeyed));
  }

  #stubType(type: PyType, isKeyed: boolean): PyType {
    switch (type.kind) {
      case "class":
        return { kind: "class", name: this.#named(type.name, isKeyed) };
      case "oneOf":
        return { kind: "class", name: joined(oneOfBase(type.values)) };
      case "tuple": {
        const tuple = mapParts(type, (item) => this.#stubType(item, false));
        return { kind: "union", members: [tuple, { kind: "list", item: ANY }] };
      }
      case "annotated":
        return this.#stubType(type.base, isKeyed);
      case "name":
        return type === NEVER ? ANY : plain(type);
    }
    // A dictionary that may stand for one of several objects is not compared with one of them.
    const holders = partsOf(type).filter((part) => this.#mayHoldObjects(part));
    const isPartKeyed = isKeyed && (type.kind !== "union" || holders.length <= 1);
    return mapParts(type, (part) => this.#stubType(part, isPartKeyed));
  }

  #mayHoldObjects(type: PyType): boolean {
    if (type.kind === "dict" || type === ANY) return true;
    if (type.kind === "class") return this.#definitions.get(type.name)?.kind !== "values";
    return partsOf(type).some((part) => this.#mayHoldObjects(part));
  }

  /** The stub's type for a class. Arguments can also be dictionaries. */
  #named(name: string, isKeyed = false): string {
    const definition = this.#definitions.get(name);
    if (definition?.kind === "values" && typeText(definition.type).length <= MAX_REPEATED) {
      return this.#type(definition.type);
    }
    if (definition?.kind === "alias") return "Any"; // it refers to itself
    if (definition?.kind === "class" && isInputClass(definition)) {
      const dictionary = isKeyed && this.#isKeyed(definition)
        ? `${this.#prefix}${name}__dict`
        : "dict[str, Any]";
      return `${this.#prefix}${name} | ${dictionary}`;
    }
    return this.#prefix + name;
  }
}

/** Whether dictionaries can stand for the objects of a class. */
function isInputClass({ base }: ClassDefinition): boolean {
  return base === "InputModel" || base === "CheckedModel";
}

/** Whether a name can be a keyword argument. */
function isKeyword(name: string): boolean {
  return /^[A-Za-z]\w*$/.test(name) && name !== "self" && !KEYWORDS.has(name);
}

function membersOf(type: PyType): readonly PyType[] {
  if (type.kind === "annotated") return membersOf(type.base);
  return type.kind === "union" ? type.members.flatMap(membersOf) : [type];
}
