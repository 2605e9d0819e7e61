/**
 * Fills the templates of `templates/package/`, which are Python whose holes are names.
 *
 * @module
 */
import { asset, type AssetPath } from "../assets/mod.ts";

/** A template of the package's files. */
export type TemplateName = Extract<AssetPath, `package/${string}`> extends
  `package/${infer Name}.py` ? Name
  : never;

/** Text between holes, and the names of holes, in turns. */
type Parts = readonly string[];

const parsed = new Map<TemplateName, Parts>();

/** Fills a template. Values go in as they are, once: nothing in them is looked at again. */
export function fill(name: TemplateName, values: Readonly<Record<string, string>>): string {
  const parts = parsed.get(name) ?? parse(name);
  const used = new Set<string>();
  let text = "";
  parts.forEach((part, index) => {
    if (index % 2 === 0) {
      text += part;
      return;
    }
    const value = values[part];
    if (value === undefined) throw new TypeError(`Template ${name}: no value for the hole ${part}`);
    used.add(part);
    text += value;
  });
  const unused = Object.keys(values).find((key) => !used.has(key));
  if (unused !== undefined) {
    throw new TypeError(`Template ${name}: no hole for the value ${unused}`);
  }
  return text;
}

function parse(name: TemplateName): Parts {
  const parts = asset(`package/${name}.py`).split(/__([A-Z]+(?:_[A-Z]+)*)__/);
  parsed.set(name, parts);
  return parts;
}
