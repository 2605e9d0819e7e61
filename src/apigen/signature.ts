import { buildModule, type ModuleOrigin, openModule } from "./module_builder.ts";
import type { JsonObject } from "./json.ts";
import type { Field, ModuleModel, PyType } from "./model.ts";
import { literal } from "./python.ts";
import { typeText } from "./type_text.ts";

/**
 * A tool's function as one line of Python, without restrictions of its arguments.
 *
 * @param origin Server, tool and module.
 * @param definition The tool as the server lists it.
 * @returns Such as `search.run(query: str, limit: int | None = 10) -> Result`.
 */
export function signatureOf(origin: ModuleOrigin, definition: JsonObject): string {
  const model = modelOf(origin, definition);
  const params = model.definitions.find(({ name }) => name === "Params");
  const fields = params?.kind === "class" ? params.fields.map(argument) : [];
  if (params?.kind === "class" && params.extra !== undefined) fields.push("**others");
  return `${model.module}.run(${fields.join(", ")}) -> ${
    model.returns === "result" ? "Result" : "str"
  }`;
}

function modelOf(origin: ModuleOrigin, definition: JsonObject): ModuleModel {
  try {
    return buildModule(origin, definition);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return openModule(origin, definition, error.message);
  }
}

function argument({ name, type, required, default: preset }: Field): string {
  const text = `${name}: ${typeText(plain(type))}`;
  return required ? text : `${text} = ${literal(preset ?? null)}`;
}

const PLAIN_NAMES = new Map([
  ["Int", "int"],
  ["Num", "float"],
  ["Bool", "bool"],
  ["Null", "None"],
]);

/** A type as one would write it by hand. */
function plain(type: PyType): PyType {
  switch (type.kind) {
    case "name": {
      const name = PLAIN_NAMES.get(type.name);
      return name === undefined ? type : { kind: "class", name };
    }
    case "class":
    case "literal":
    case "oneOf":
      return type;
    case "list":
      return { kind: "list", item: plain(type.item) };
    case "dict":
      return { kind: "dict", value: plain(type.value) };
    case "tuple":
      return { kind: "tuple", items: type.items.map(plain) };
    case "union":
      return { kind: "union", members: type.members.map(plain) };
    case "annotated":
      return plain(type.base);
  }
}
