/**
 * `@std/assert` by its bare name: the same code from npm, with the types that npm's copy lacks.
 *
 * JSR cannot be assumed reachable where this project is built; a maintainer who can reach it changes one
 * line of `deno.json`. That line is in `scopes`: everyone who links a checkout downloads all packages
 * to which `imports` lead, also through modules.
 */
// @ts-types="./assert.d.ts"
export * from "npm:deno-std@1.4.0/assert/mod.js";
