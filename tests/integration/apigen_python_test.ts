import { assert, assertEquals } from "@std/assert";
import { generatePackage } from "../../src/apigen/generate.ts";
import { runPyright, runPython } from "../support/run_python.ts";
import { TempFolder } from "../support/temp_folder.ts";

const where = {
  type: "object",
  properties: {
    field: { type: "string" },
    limit: { type: "integer" },
    and: { type: "array", items: { $ref: "#/$defs/where" } },
  },
  required: ["field"],
};

/** Public attributes of Pydantic's models. */
const ATTRIBUTES =
  ("construct copy dict from_orm json model_computed_fields model_config model_construct model_copy " +
    "model_dump model_dump_json model_extra model_fields model_fields_set model_json_schema " +
    "model_parametrized_name model_post_init model_rebuild model_validate model_validate_json " +
    "model_validate_strings parse_file parse_obj parse_raw schema schema_json update_forward_refs " +
    "validate").split(" ");

const TOOLS: readonly unknown[] = [
  {
    name: "Search-Items",
    description: "Searches.",
    inputSchema: {
      type: "object",
      properties: {
        query: { type: "string" },
        sort: { enum: ["new", "old"], default: "new" },
        limit: { type: "integer" },
        cursor: { type: ["string", "null"] },
        from: { type: "string" },
        where: { $ref: "#/$defs/where" },
        scale: { enum: ["css", "device"], default: "css" },
      },
      required: ["query", "scale"],
      $defs: { where },
    },
    outputSchema: {
      type: "object",
      properties: {
        hits: { type: "array", items: { type: "string" } },
        from: { type: "string" },
        where: { $ref: "#/$defs/where" },
      },
      required: ["hits"],
      $defs: { where },
    },
  },
  { name: "nothing", inputSchema: { type: "object" } },
  {
    name: "awkward",
    inputSchema: { type: "object", properties: { params: {}, self: {}, from: {}, class: {} } },
  },
  {
    name: "numbers",
    inputSchema: {
      type: "object",
      properties: {
        number: { type: "number" },
        integer: { type: "integer" },
        step: { type: "number", multipleOf: 0.01 },
        distinct: { type: "array", uniqueItems: true },
      },
    },
  },
  { name: "anything", inputSchema: { type: "object" }, outputSchema: {} },
  {
    name: "wrapped",
    inputSchema: { type: "object" },
    outputSchema: {
      type: "object",
      properties: { result: { type: "string" } },
      required: ["result"],
    },
  },
  {
    name: "listed",
    inputSchema: { type: "object" },
    outputSchema: {
      type: "object",
      properties: { result: { type: "array", items: { type: "integer" } } },
      required: ["result"],
    },
  },
  {
    name: "free",
    inputSchema: { type: "object" },
    outputSchema: { type: "object", additionalProperties: true },
  },
  {
    name: "closed",
    inputSchema: {
      type: "object",
      properties: { color: { type: "string" } },
      additionalProperties: false,
    },
  },
  {
    name: "nested",
    inputSchema: {
      type: "object",
      properties: {
        shot: {
          type: "object",
          properties: {
            list: {
              type: "array",
              items: {
                type: "object",
                properties: { scale: { type: "integer", default: 1 } },
                required: ["scale"],
              },
            },
          },
        },
      },
    },
  },
  {
    name: "checked",
    inputSchema: { type: "object", properties: { a: {}, b: {} }, dependentRequired: { a: ["b"] } },
  },
  {
    name: "attributes",
    inputSchema: {
      type: "object",
      properties: Object.fromEntries(ATTRIBUTES.map((name) => [name, {}])),
    },
  },
];

Deno.test("generated modules do in Python what the schemas say", async () => {
  await using directory = await TempFolder.create();
  await generatePackage("demo", { tools: TOOLS }, { rootDir: directory.path });
  const script = new URL("../python/test_generated.py", import.meta.url).pathname;

  const { success, stderr } = await runPython(["-W", "error", script, directory.path]);

  assert(success, stderr);
});

const CALLER = `
from demo import free, listed, nothing, search_items, wrapped
from demo.search_items import Params, Where, run

def calls() -> list[str]:
    run(Params(query="x", sort="new", from_="a", where=Where(field="a", and_=[Where(field="b")])))
    result = search_items.run(query="x", where=Where(field="a"))
    first: int = listed.run().result[0]
    texts = [wrapped.run().strip(), str(free.run()["any"]), str(free.run().any), str(first)]
    return [*result.hits, nothing.run(), nothing.run(nothing.Params()), *texts]

async def awaited() -> list[str]:
    await search_items.run_async(Params(query="x", scale="device"))
    return (await search_items.run_async(query="x")).hits
`;

const WRONG_CALLS = `
from demo import search_items

search_items.run(query=5)
search_items.run(querry="x")
search_items.run(query="x", sort="newest")
search_items.Params(limit=3)
search_items.run(query="x").hits.nothing
search_items.run_async(query=5)
search_items.run(query="x", scale="big")
`;

Deno.test("type checkers know the parameters of run(), as keywords and as Params", async () => {
  await using directory = await TempFolder.create();
  const { path } = directory;
  await generatePackage("demo", { tools: TOOLS }, { rootDir: path });
  await Deno.writeTextFile(`${path}/caller.py`, CALLER);
  await Deno.writeTextFile(`${path}/wrong.py`, WRONG_CALLS);
  await Deno.writeTextFile(`${path}/pyrightconfig.json`, '{"typeCheckingMode": "strict"}');
  const files = ["caller.py", "wrong.py"];

  const checked = [
    await runPython(["-m", "mypy", "--strict", "--cache-dir=/dev/null", ...files], { cwd: path }),
    await runPyright(path, files),
  ];

  for (const { stdout } of checked) {
    assertEquals(linesWithErrors(stdout, "caller.py"), []);
    assertEquals(linesWithErrors(stdout, "wrong.py"), [4, 5, 6, 7, 8, 9, 10]);
  }
});

/** The numbers of the lines of a file that a type checker complains of. */
function linesWithErrors(output: string, file: string): number[] {
  const lines = [...output.matchAll(new RegExp(`${file}:(\\d+)(?::\\d+)?(?: -|:) error`, "g"))];
  return [...new Set(lines.map(([, line]) => Number(line)))].sort((a, b) => a - b);
}
