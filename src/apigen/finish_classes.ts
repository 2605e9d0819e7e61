/**
 * Finalizes the definitions of a module: merges equal classes, assigns names, and removes repeated
 * descriptions.
 *
 * @module
 */
import {
  type ClassDefinition,
  type Definition,
  type Field,
  mapParts,
  partsOf,
  type PyType,
  renamed,
} from "./model.ts";
import { ClassNames, pascalCase, singular } from "./names.ts";
import { literal } from "./python.ts";
import { typeText } from "./value_types.ts";

/** Lists of values longer than this, in characters, get a name if several fields use them. */
const MAX_REPEATED = 40;

/** Finalizes the definitions of a module. */
export function finishClasses(definitions: readonly Definition[], names: ClassNames): Definition[] {
  const united = unite(definitions, names);
  const named = rename(united.definitions, united.hints, names);
  return shareValues(withoutEchoes(named), names);
}

/** Merges equal classes, inner ones first. */
function unite(definitions: readonly Definition[], names: ClassNames) {
  const same = new Map<string, string>();
  const known = new Map<string, string>();
  const hints = new Map<string, Set<string>>();
  const kept: Definition[] = [];
  const about = new Map<string, string>();
  for (const definition of definitions) {
    const { name } = definition;
    const hint = names.hintOf(name);
    const own = withNames(definition, (inner) => same.get(inner) ?? inner);
    const isRoot = name === "Params" || name === "Result";
    const key = own.kind === "class" && !isRoot ? keyOf(own) : undefined;
    const first = key === undefined ? undefined : known.get(`${hint} ${key.shape}`) ??
      known.get(key.whole);
    if (first !== undefined) {
      same.set(name, first);
      hints.get(first)?.add(hint);
      // A description need not be true of the other class.
      if (definition.kind === "class" && definition.description !== about.get(first)) {
        about.set(first, "");
      }
      continue;
    }
    if (key !== undefined) known.set(`${hint} ${key.shape}`, name).set(key.whole, name);
    hints.set(name, new Set([hint]));
    if (own.kind === "class") about.set(name, own.description);
    kept.push(own);
  }
  // A recursive class may refer to one that was merged later.
  const nameOf = (name: string) => same.get(name) ?? name;
  const left = kept.map((definition) => {
    const own = withNames(definition, nameOf);
    return own.kind === "class" ? { ...own, description: about.get(own.name) ?? "" } : own;
  });
  return { definitions: left, hints };
}

/** Keys for comparing classes: by types alone, and with the descriptions of fields. */
function keyOf({ base, closed, open, extra, fields }: ClassDefinition) {
  const head = [base, closed, open, extra && typeText(extra)];
  const shape = fields.map((field) => [
    field.name,
    field.wire,
    typeText(field.type),
    field.required,
    field.sent,
    field.default === undefined ? "" : literal(field.default),
  ]);
  return {
    shape: JSON.stringify([head, shape]),
    whole: JSON.stringify([head, shape, fields.map(({ description }) => description)]),
  };
}

/** Assigns final names to classes, outer ones first. */
function rename(
  definitions: readonly Definition[],
  hints: ReadonlyMap<string, ReadonlySet<string>>,
  { avoid }: ClassNames,
): Definition[] {
  const byName = new Map(definitions.map((definition) => [definition.name, definition]));
  const pool = new ClassNames(avoid);
  const final = new Map([["Params", "Params"], ["Result", "Result"]]);
  const waiting = ["Params", "Result"];
  for (const name of waiting) { // it grows
    const definition = byName.get(name);
    const parent = name === "Params" ? "" : final.get(name) ?? "";
    for (const inner of definition === undefined ? [] : namesIn(definition)) {
      if (final.has(inner) || !byName.has(inner)) continue;
      const hint = commonName([...hints.get(inner) ?? [inner]]);
      const around = pascalCase(hint).startsWith(parent) ? hint : `${parent} ${hint}`;
      final.set(inner, pool.next(hint, around));
      waiting.push(inner);
    }
  }
  const nameOf = (name: string) => final.get(name) ?? name;
  return definitions.flatMap((definition) => {
    const name = final.get(definition.name);
    return name === undefined ? [] : [{ ...withNames(definition, nameOf), name }];
  });
}

/** One hint for several: their common last words, or both of two. */
function commonName(hints: readonly string[]): string {
  const words = hints.map((hint) => pascalCase(hint).match(/[A-Z]?[a-z0-9]+|[A-Z]+/g) ?? []);
  const [first = [], ...others] = words;
  let common = 0;
  while (
    common < first.length &&
    others.every((list) => list.at(-common - 1) === first.at(-common - 1))
  ) common++;
  if (others.length === 0) return hints[0] ?? "";
  if (common > 0) return first.slice(-common).join(" ");
  return hints.length === 2 ? hints.join(" or ") : hints[0] ?? "";
}

/** Removes repeated descriptions: of a class that a field describes too, and of equal fields. */
function withoutEchoes(definitions: readonly Definition[]): Definition[] {
  const said = new Map<string, Set<string>>();
  const aboutFields = new Map<string, Set<string>>();
  for (const definition of definitions) {
    if (definition.kind !== "class") continue;
    for (const { type, description } of definition.fields) {
      for (const name of typeNames(type)) {
        aboutFields.set(name, (aboutFields.get(name) ?? new Set()).add(description));
      }
    }
  }
  return definitions.map((definition) => {
    if (definition.kind !== "class") return definition;
    const { name, description } = definition;
    return {
      ...definition,
      description: aboutFields.get(name)?.has(description) ? "" : description,
      fields: definition.fields.map((field) => {
        const known = said.get(field.wire) ?? new Set();
        const isEcho = known.has(field.description);
        said.set(field.wire, known.add(field.description));
        return isEcho ? { ...field, description: "" } : field;
      }),
    };
  });
}

/** Names long lists of values that several fields use. */
function shareValues(definitions: readonly Definition[], { avoid }: ClassNames): Definition[] {
  const fields = definitions.flatMap((definition) =>
    definition.kind === "class" ? definition.fields : []
  );
  const uses = new Map<string, { readonly type: PyType; readonly fields: Field[] }>();
  for (const field of fields) {
    for (const type of literalsIn(field.type)) {
      const text = typeText(type);
      if (text.length <= MAX_REPEATED) continue;
      const use = uses.get(text) ?? { type, fields: [] };
      uses.set(text, use);
      use.fields.push(field);
    }
  }
  const taken = new Set([...avoid, ...definitions.map(({ name }) => name)]);
  const pool = new ClassNames(taken);
  const names = new Map<string, string>();
  const values: Definition[] = [];
  for (const [text, { type, fields: [field, ...others] }] of uses) {
    if (field === undefined || others.length === 0) continue;
    const name = pool.next(singular(field.wire) ?? field.wire);
    names.set(text, name);
    values.push({ kind: "values", name, type });
  }
  if (values.length === 0) return [...definitions];
  const share = (type: PyType): PyType => {
    const name = type.kind === "literal" ? names.get(typeText(type)) : undefined;
    return name === undefined ? mapParts(type, share) : { kind: "class", name };
  };
  return [
    ...values,
    ...definitions.map((definition) =>
      definition.kind === "class"
        ? {
          ...definition,
          fields: definition.fields.map((field) => ({ ...field, type: share(field.type) })),
        }
        : definition
    ),
  ];
}

function literalsIn(type: PyType): PyType[] {
  return type.kind === "literal" ? [type] : partsOf(type).flatMap(literalsIn);
}

/** Renames the classes in the types of a definition. */
function withNames(definition: Definition, nameOf: (name: string) => string): Definition {
  if (definition.kind !== "class") return { ...definition, type: renamed(definition.type, nameOf) };
  const { extra, fields } = definition;
  return {
    ...definition,
    extra: extra === undefined ? undefined : renamed(extra, nameOf),
    fields: fields.map((field) => ({ ...field, type: renamed(field.type, nameOf) })),
  };
}

function namesIn(definition: Definition): Set<string> {
  if (definition.kind !== "class") return typeNames(definition.type);
  const { extra, fields } = definition;
  const types = [...fields.map(({ type }) => type), ...(extra === undefined ? [] : [extra])];
  return new Set(types.flatMap((type) => [...typeNames(type)]));
}

function typeNames(type: PyType): Set<string> {
  const names = new Set<string>();
  renamed(type, (name) => {
    names.add(name);
    return name;
  });
  return names;
}
