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
const SCHEMAS = Deno.env.has("IPYBOX_SOAK") ? 500 : 25;

interface Inspection {
  readonly problems: readonly [file: string, problem: string][];
  readonly canary: boolean;
  readonly slowest_import_ms: number;
}

/** Generates packages of hostile tools and has Python look at them. */
async function inspect(
  packages: Readonly<Record<string, readonly unknown[]>>,
): Promise<Inspection> {
  await using directory = await TempFolder.create();
  for (const [name, tools] of Object.entries(packages)) {
    const listing = {
      tools,
      serverInfo: { name: PAYLOADS[0], title: PAYLOADS[3] },
      instructions: PAYLOADS.join("\n"),
    };
    const modules = await generatePackage(name, listing, { rootDir: directory.path });
    assert(modules.length > 0, name);
  }
  return await runScript("inspect_package.py", [directory.path, ...Object.keys(packages)]);
}

Deno.test("no hostile tools become code, break a module or hang Python", async () => {
  const { problems, canary, slowest_import_ms } = await inspect({
    names_of_tools: NAMED_TOOLS,
    names_of_properties: [MANY_NAMES],
    texts: TEXT_TOOLS,
    patterns: PATTERN_TOOLS,
    no_tools: MALFORMED,
    too_deep_wide_or_endless: HUGE_TOOLS,
  });

  assertEquals(problems, []);
  assertFalse(canary);
  assert(slowest_import_ms < 20_000); // only so that endless work is seen
});

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

  const { problems, canary } = await inspect({ hostile: tools });

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
