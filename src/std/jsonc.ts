/**
 * `@std/jsonc` by its bare name: the same code from npm, with the type that npm's copy lacks.
 *
 * @module
 */
// @ts-types="./jsonc.d.ts"
export { parse } from "deno-std/jsonc/parse.js";
