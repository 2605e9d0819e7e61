/**
 * Python types for results whose shape is known only from calls. They are hints: results are not
 * checked against them.
 *
 * @module
 */
import type { FieldShape, ObservedResults, Shape } from "../json/shape.ts";
import { ANY, NONE, type ObservedClass, type ObservedResult, type PyType } from "./model.ts";
import { type ClassNames, singular } from "./names.ts";
import { lineOf, literal } from "./python.ts";
import { typeLayout, typeText } from "./value_types.ts";

/** The type of observed results with its `TypedDict`s, whose names are taken from `names`. */
export function observedResult(
  { calls, shape }: ObservedResults,
  names: ClassNames,
): ObservedResult {
  const builder = new ObservedBuilder(names);
  const type = builder.typeOf(shape, "Json Result");
  return { calls, type, classes: builder.classes };
}

class ObservedBuilder {
  readonly classes: ObservedClass[] = [];
  readonly #names: ClassNames;
  /** The classes by their fields: equal ones are merged. */
  readonly #known = new Map<string, PyType>();

  constructor(names: ClassNames) {
    this.#names = names;
  }

  typeOf({ scalars, items, object }: Shape, hint: string): PyType {
    const types: PyType[] = scalars
      .filter((type) => type !== "null" && !(type === "int" && scalars.includes("float")))
      .map((name) => ({ kind: "class", name }));
    if (items !== undefined) types.push({ kind: "list", item: this.typeOf(items, oneOf(hint)) });
    if (object?.kind === "mapping") {
      types.push({ kind: "dict", value: this.typeOf(object.values, oneOf(hint)) });
    } else if (object !== undefined) types.push(this.#recordOf(object.seen, object.fields, hint));
    const [first = ANY] = types; // null alone says nothing
    if (first === ANY) return ANY;
    if (scalars.includes("null")) types.push(NONE);
    return types.length === 1 ? first : { kind: "union", members: types };
  }

  #recordOf(seen: number, shapes: ReadonlyMap<string, FieldShape>, hint: string): PyType {
    if (shapes.size === 0) return { kind: "dict", value: ANY };
    const fields = [...shapes].map(([wire, field]) => ({
      wire,
      type: this.typeOf(field.shape, wire),
      always: field.seen >= seen,
    }));
    const key = JSON.stringify(fields.map((f) => [f.wire, typeText(f.type), f.always]));
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const name = this.#names.next(hint);
    const type: PyType = { kind: "class", name };
    this.#known.set(key, type);
    this.classes.push({ name, fields });
    return type;
  }
}

function oneOf(hint: string): string {
  return hint === "Json Result" ? "Json Item" : singular(hint) ?? hint;
}

/** Renders the `TypedDict`s of a result. */
export function typedDicts({ classes }: ObservedResult): string {
  return classes.map(({ name, fields }) => {
    const lines = fields.map(({ wire, type, always }) => {
      const start = `${literal(wire)}: ${always ? "" : "NotRequired["}`;
      const end = always ? "," : "],";
      return `        ${lineOf(start, typeLayout(type), end, 8)}\n`;
    });
    return `${name} = TypedDict(\n    ${literal(name)},\n    {\n${lines.join("")}    },\n)\n`;
  }).join("\n");
}

/** The number of calls that a type is based on, in words. */
export function observedIn({ calls }: ObservedResult, verb = "observed"): string {
  return `${verb} in ${calls} call${calls === 1 ? "" : "s"}`;
}
