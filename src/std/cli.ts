/**
 * `@std/cli` by its bare name: the same code from npm, with the types that npm's copy lacks.
 *
 * npm's copy also lacks the table behind `unicodeWidth`, and cannot be imported as a whole.
 */
// @ts-types="./cli.d.ts"
export { parseArgs } from "deno-std/cli/parse_args.js";
export { unicodeWidth } from "./unicode_width.ts";
