/** `@std/toml` by its bare name: the same code from npm, with the type that npm's copy lacks. */
// @ts-types="./toml.d.ts"
export { parse } from "deno-std/toml/parse.js";
