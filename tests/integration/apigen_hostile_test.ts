import fc from "../support/fast_check.ts";
import { assert, assertEquals, assertFalse } from "@std/assert";
import { generatePackage } from "../../src/apigen/generate.ts";
import {
  HUGE_TOOLS,
  MALFORMED,
  MANY_NAMES,
  NAMED_TOOLS,
  PATTERN_TOOLS,
  PAYLOADS,
  TEXT_TOOLS,
} from "../fixtures/hostile_tools.ts";
import { arbitraryInput } from "../support/arbitrary_schema.ts";
import { runScript } from "../support/run_python.ts";
import { TempFolder } from "../support/temp_folder.ts";

/** How many schemas fast-check makes: more in `deno task soak`. */
const SCHEMAS = Deno.env.has("IPYBOX_SOAK") ? 500 : 50;

interface Inspection {
  readonly modules: number;
  readonly problems: readonly [file: string, problem: string][];
  readonly canary: boolean;
  readonly slowest_import_ms: number;
}

/** Generates a package of hostile tools and has Python look at it. */
async function inspect(tools: readonly unknown[]): Promise<Inspection> {
  await using directory = await TempFolder.create();
  const listing = {
    tools,
    serverInfo: { name: PAYLOADS[0], title: PAYLOADS[3] },
    instructions: PAYLOADS.join("\n"),
  };
  await generatePackage("hostile", listing, { rootDir: directory.path });
  return await runScript("inspect_package.py", [directory.path, "hostile"]);
}

for (
  const [what, tools] of [
    ["names of tools", NAMED_TOOLS],
    ["names of properties", [MANY_NAMES]],
    ["texts, wherever they are", TEXT_TOOLS],
    ["patterns", PATTERN_TOOLS],
    ["lists that are none", MALFORMED],
    ["schemas that are too deep, too wide or endless", HUGE_TOOLS],
  ] as const
) {
  Deno.test(`no hostile ${what} become code, break a module or hang Python`, async () => {
    const { modules, problems, canary, slowest_import_ms } = await inspect(tools);

    assertEquals(problems, []);
    assertFalse(canary);
    assert(modules > 1);
    assert(slowest_import_ms < 20_000); // only so that endless work is seen
  });
}

Deno.test("no text that fast-check finds becomes code", async () => {
  const text = fc.string({ unit: "binary", maxLength: 30 });
  const token = fc.constantFrom(
    '"""',
    '"',
    "'",
    "\\",
    "\n",
    "\r",
    "#",
    "{",
    "}",
    "__NAME__",
    "$&",
    "\0",
  );
  const hostile = fc.array(fc.oneof(token, text), { maxLength: 8 }).map((parts) => parts.join(""));
  const texts = fc.sample(hostile, { numRuns: 100, seed: 5 });
  const tools = texts.map((text, index) => ({
    name: `${index}${text}`,
    description: text,
    inputSchema: {
      type: "object",
      properties: {
        [text]: { enum: [text], description: text, default: text },
        x: { pattern: text },
      },
    },
    outputSchema: { type: "object", description: text, properties: { [text]: { const: text } } },
  }));

  const { problems, canary } = await inspect(tools);

  assertEquals(problems, []);
  assertFalse(canary);
});

Deno.test("for schemas that fast-check makes, Params allows what the schema allows and sends it unchanged", async () => {
  await using directory = await TempFolder.create();
  const schemas = fc.sample(arbitraryInput, { numRuns: SCHEMAS, seed: 11 });
  const tools = schemas.map((inputSchema, index) => ({ name: `t${index}`, inputSchema }));
  const generated = await generatePackage("fuzz", { tools }, { rootDir: directory.path });
  const manifest = generated.map(({ module }, index) => ({
    package: "fuzz",
    module,
    schema: schemas[index],
  }));
  await Deno.writeTextFile(`${directory.path}/manifest.json`, JSON.stringify(manifest));

  const { checked, valid, found } = await runScript<Record<"checked" | "valid" | "found", unknown>>(
    "judge_schemas.py",
    [directory.path, `${directory.path}/manifest.json`, "40"],
  );

  assertEquals(found, []);
  assert(Number(checked) > 20 * SCHEMAS && Number(valid) > 3 * SCHEMAS);
});
