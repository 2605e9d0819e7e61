/**
 * `@std/cli` by its bare name: the same code from npm, with the types that npm's copy lacks.
 *
 * @module
 */
// @ts-types="./cli.d.ts"
export { parseArgs, unicodeWidth } from "deno-std/cli/mod.js";
