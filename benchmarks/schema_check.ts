// deno-lint-ignore-file no-console -- it reports to a terminal
/**
 * Whether `jsonschema-rs` could check arguments in place of the runtime's `checks.py`: how often each is
 * right on labelled arguments, what hostile schemas do to it, and what importing it costs.
 *
 * Run it with `deno run -A benchmarks/schema_check.ts`. It takes the corpus beside the repository or in
 * `IPYBOX_CORPUS`, and the package from PyPI.
 *
 * @module
 */
import { checkSchema } from "../src/apigen/check_schema.ts";
import { isObject, toJson } from "../src/apigen/json.ts";
import { SchemaReader } from "../src/apigen/schema_reader.ts";
import { CORPUS, corpusServers, NO_CORPUS, suiteGroups } from "../tests/support/corpus.ts";

const PACKAGES = ["jsonschema-rs==0.61.2", "pydantic"];
const DRAFTS = ["draft4", "draft6", "draft7", "draft2019-09", "draft2020-12"];

/** Labelled arguments of one schema. */
interface Group {
  readonly from: string;
  readonly schema: unknown;
  /** The schema as generated modules have it, in JSON. */
  readonly written: string;
  readonly tests: readonly { readonly args: unknown; readonly valid: boolean }[];
}

if (CORPUS === undefined) {
  console.log(`Skipped: ${NO_CORPUS}`);
  Deno.exit(0);
}
const folder = await Deno.makeTempDir({ prefix: "ipybox-bench-" });
try {
  const groups = [...toolGroups(), ...DRAFTS.flatMap(draftGroups)];
  await Deno.writeTextFile(`${folder}/groups.json`, JSON.stringify(groups));
  const hostile = Object.entries(HOSTILE()).map(([name, { schema, value }]) => (
    { name, schema, written: written(schema), value }
  ));
  await Deno.writeTextFile(`${folder}/hostile.json`, JSON.stringify(hostile));
  const python = `${folder}/venv/bin/python`;
  await run("python3", ["-m", "venv", `${folder}/venv`]);
  await run(python, ["-m", "pip", "install", "--quiet", ...PACKAGES]);
  await run(python, [new URL("./schema_check.py", import.meta.url).pathname, folder]);
} finally {
  await Deno.remove(folder, { recursive: true });
}

function* toolGroups(): Generator<Group> {
  for (const { server, tools } of corpusServers()) {
    const path = `${CORPUS}/mcp-tools-examples/${server}.json`;
    const schemas = new Map(tools.map(({ name, inputSchema }) => [name, inputSchema]));
    for (
      const { tool, valid = [], invalid = [] } of JSON.parse(Deno.readTextFileSync(path)).examples
    ) {
      const schema = schemas.get(tool);
      const tests = [
        ...valid.map((args: unknown) => ({ args, valid: true })),
        ...invalid.map((args: unknown) => ({ args, valid: false })),
      ];
      yield { from: "real tools", schema, written: written(schema), tests };
    }
  }
}

function draftGroups(draft: string): Group[] {
  return suiteGroups(draft).filter(({ mode, optional }) => mode === "direct" && !optional)
    .map(({ schema, tests }) => ({ from: draft, schema, written: written(schema), tests }));
}

function written(schema: unknown): string {
  const raw = toJson(schema);
  const reader = new SchemaReader(isObject(raw) ? raw : new Map());
  return checkSchema(reader.read(reader.root));
}

/** Schemas that ask for endless work, or for what is elsewhere; each has less than 256 KiB. */
function HOSTILE(): Record<string, { readonly schema: unknown; readonly value: unknown }> {
  const doubling = (levels: number, keyword: string) => ({
    $ref: "#/$defs/d0",
    $defs: {
      ...Object.fromEntries(Array.from({ length: levels }, (_, at) => [
        `d${at}`,
        { [keyword]: [{ $ref: `#/$defs/d${at + 1}` }, { $ref: `#/$defs/d${at + 1}` }] },
      ])),
      [`d${levels}`]: { required: ["x"] },
    },
  });
  const pattern = (source: string) => ({ properties: { s: { pattern: source } } });
  return {
    "26 levels of anyOf": { schema: doubling(26, "anyOf"), value: {} },
    "26 levels of oneOf": { schema: doubling(26, "oneOf"), value: {} },
    "30 levels of allOf": { schema: doubling(30, "allOf"), value: { x: 1 } },
    "a pattern with back-references": {
      schema: pattern("^(a*)*\\1b$"),
      value: { s: "a".repeat(60) },
    },
    "a reference to a file": { schema: { $ref: "file:///etc/hostname" }, value: {} },
    "a keyword that is malformed": {
      schema: { properties: { s: { minLength: "3" }, n: { type: "integer" } } },
      value: { n: "no integer" },
    },
  };
}

async function run(command: string, args: string[]): Promise<void> {
  const { success } = await new Deno.Command(command, { args, stdin: "null" }).spawn().status;
  if (!success) throw new Error(`${command} ${args.join(" ")} failed`);
}
