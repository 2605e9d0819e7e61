/**
 * The only reader of the files under `templates/`, which are embedded in `embedded.json`.
 *
 * Embedding by a JSON module works for local runs, for remote imports and in compiled binaries, and
 * needs no read permission; text imports are refused by JSR at publish.
 *
 * @module
 */
import embedded from "./embedded.json" with { type: "json" };

/** The path of a file under `templates/`. A wrong one is a type error. */
export type AssetPath = keyof typeof embedded;

/** The text of one file under `templates/`. */
export function asset(path: AssetPath): string {
  return embedded[path];
}

/** The files below one folder of `templates/`, in the order of their paths. */
export function assetTree(folder: string): { path: string; text: string }[] {
  return Object.entries(embedded)
    .filter(([path]) => path.startsWith(`${folder}/`))
    .map(([path, text]) => ({ path: path.slice(folder.length + 1), text }));
}
