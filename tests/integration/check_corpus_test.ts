/** The check of cells on programs that call real tools, and on all Python that is meant to be right. */
import { assert, assertEquals } from "@std/assert";
import { generatePackage } from "../../src/apigen/generate.ts";
import { assetTree } from "../../src/assets/mod.ts";
import { CORPUS, NO_CORPUS } from "../support/corpus.ts";
import { checkTools, generateCorpus, tally } from "../support/corpus_check.ts";
import { LocalCheck } from "../support/local_check.ts";
import { codeBlocks } from "../support/markdown.ts";
import { runScript } from "../support/run_python.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";

const ROOT = new URL("../../", import.meta.url);
/** Of each so many tools of the corpus one is checked. */
const EVERY = 12;

testIf(CORPUS !== undefined, NO_CORPUS, {
  name: "no right call of a real tool is stopped, and of wrong ones at least 95 % of each kind are",
  fn: async () => {
    await using directory = await TempFolder.create();
    const tools = (await generateCorpus(directory.path)).filter((_, at) => at % EVERY === 5);
    await using check = await LocalCheck.start(directory.path);

    const right = await Array.fromAsync(checkTools(check, tools, "right"));
    assertEquals(right.filter(({ problems }) => problems.length > 0), []);
    assert(right.length > 500, `${right.length} right programs`);

    const wrong = await Array.fromAsync(checkTools(check, tools, { seed: 7 }));
    const tallies = tally(wrong);
    assertEquals(tallies.size, 7);
    for (const [mistake, { made, stopped }] of tallies) {
      assert(stopped >= Math.floor(made * 0.95), `${mistake}: ${stopped} of ${made} are stopped`);
    }
  },
});

/** Tools whose schemas say what is rare in real ones. */
const ODD_TOOLS = [
  {
    name: "search",
    inputSchema: {
      type: "object",
      properties: {
        query: { type: "string" },
        limit: { type: "integer" },
        from: { type: "string" },
        json: { type: "boolean" },
        "page-size": { type: "number" },
        tags: { type: "array", items: { type: "string" } },
        filter: { anyOf: [{ type: "string" }, { type: "array", items: { type: "integer" } }] },
        matrix: { type: "array", items: { type: "array", items: { type: "number" } } },
        level: { enum: [1, "high", true, null] },
        rank: { enum: [1, 2, 3] },
        when: { enum: Array.from({ length: 30 }, (_, at) => `day${at}`) },
        name: { enum: ["naïve", 'a "b"', "c\\d"] },
        point: { type: "array", prefixItems: [{ type: "number" }, { type: "string" }] },
        options: {
          type: "object",
          properties: { deep: { type: "boolean" }, depth: { type: "integer" } },
          required: ["deep"],
        },
      },
      required: ["query", "json"],
    },
    outputSchema: {
      type: "object",
      properties: {
        hits: {
          type: "array",
          items: {
            type: "object",
            properties: { id: { type: "integer" }, owner: { $ref: "#/$defs/owner" } },
            required: ["id"],
          },
        },
        "next-page": { type: ["string", "null"] },
        meta: { type: "object", additionalProperties: { type: "integer" } },
        any: {},
      },
      required: ["hits"],
      additionalProperties: true,
      $defs: {
        owner: {
          type: "object",
          properties: { name: { type: "string" }, boss: { $ref: "#/$defs/owner" } },
        },
      },
    },
  },
  { name: "raw", inputSchema: { type: "object" } },
  { name: "count", inputSchema: { type: "object" }, outputSchema: wrapped({ type: "integer" }) },
  {
    name: "names",
    inputSchema: { type: "object" },
    outputSchema: wrapped({ type: "array", items: { type: "string" } }),
  },
  { name: "free", inputSchema: { type: "object" }, outputSchema: { type: "object" } },
];

function wrapped(schema: object): object {
  return { type: "object", properties: { result: schema }, required: ["result"] };
}

const RIGHT = `
from mcptools.odd import count, free, names, raw, search
from mcptools.odd.search import Options, Params, run, run_async
import mcptools.odd as odd, mcptools, json

search.run(query="a", json=True)
search.run(query="a", json_=True, from_="b", page_size=5, limit=5.0)
search.run(Params(query="a", json=True))
search.run({"query": "a", "json": True, "page-size": 5})
search.run(query="a", json=False, **{"page-size": 5, "from": "b"})
search.run(query="a", json=False, tags=None, limit=None, options=None)
search.run(query="a", json=False, tags=[], matrix=[[1, 2.5], []], filter=[1], point=[1, "a"])
search.run(query="a", json=False, tags=("a", "b"), point=(1, "a"), filter="x")
search.run(query="a", json=False, options={"deep": True, "depth": 3})
search.run(query="a", json=False, options=Options(deep=True))
search.run(query="a", json=False, level="high", rank=2, when="day29", name="naïve")
search.run(query="a", json=False, level=1, rank=2.0, name='a "b"')
search.run(query="a", json=False, level=True, name="c\\\\d")
search.run(query="a", json=False, trace_id="xyz", verbose=True)
run(query=f"a {1}", json=bool(1), tags=[str(one) for one in range(3)])
await run_async(query="a" "b", json=not 1)
await odd.search.run_async(query="a", json=True)
odd.search(query="a", json=True)
mcptools.odd.raw.run(a=1, b=[2])
text = raw.run(anything="goes")
text.upper(), text.content, text.structured, text.images, text.result, text.splitlines()[0]
data = json.loads(text)
data["a"].b.c

result = search.run(query="a", json=True)
result.hits[0].id + 1
result.hits[0].owner.name.upper()
result.hits[0].owner.boss.boss.name
[hit.owner.name for hit in result.hits if hit.owner]
result.next_page or "none"
result.meta["a"] + 1
result.any.whatever
result.extra_of_this_server
result.tool_result.text, result.model_dump(), result["hits"], "hits" in result
for hit in sorted(result.hits, key=lambda one: one.id):
    hit.note = "mine"
    print(hit.note)
items = result.meta or {}
items.get("a")
owner = result.hits[0].owner or {}
owner.get("name") if isinstance(owner, dict) else owner.name
count.run() + 1, int(count.run()), count.run().result
names.run()[0].upper(), [one for one in names.run()], len(names.run()), names.run().count("a")
free.run().a, free.run()["a"], dict(free.run()), free.run().get("a")

def passed(rows, limit: int, options: "dict[str, object]", **rest):
    return search.run(query=rows[0], json=True, limit=limit, tags=rows, options=options, **rest)

try:
    search.run(qery="a")
except Exception as error:
    print(error)
kwargs = {"query": "a", "json": True}
search.run(**kwargs)
value = input if data else 5
search.run(query=value, json=True)
mixed: "list[object]" = ["a", 5]
search.run(query="a", json=True, tags=mixed)
empty: "list[int]" = []
search.run(query="a", json=True, tags=empty)
`;

/** Code that makes of generated names what their stubs do not know. */
const CHANGING = [
  "search.run = lambda **given: given\nsearch.run(qery='a')",
  "setattr(search, 'run', print)\nsearch.run('a')",
  "import __main__\n__main__.search = print\nsearch('a')",
  "globals()['search'] = print\nsearch('a')",
  "result = search.run(query='a', json=True)\nresult.meta = json\nresult.meta.dumps({})",
  "class Mine(search.Options):\n    extra: int\nMine(deep=True, extra=1)",
  "from functools import partial\nfind = partial(search.run, query='a')\nfind(json=True)",
  "import asyncio\nawait asyncio.to_thread(search.run, query='a', json=True)",
  "def search(text): return text\nsearch('a').upper(), search.name",
  "result = search.run(query='a', json=True).model_dump()\nresult['hits'], result.get('hits')",
  "text = raw.run() or {}\nisinstance(text, dict) and text.get('a')",
];

Deno.test("right code is not stopped, whatever schemas say", async () => {
  await using directory = await TempFolder.create();
  await generatePackage("odd", { tools: ODD_TOOLS }, { rootDir: directory.path });
  await using check = await LocalCheck.start(directory.path);

  const { certain } = await check.check(RIGHT);

  assertEquals(certain.map(({ line, evalue }) => [RIGHT.split("\n")[line], evalue]), []);
  for (const code of CHANGING) {
    const findings = await check.check(
      `import json\nfrom mcptools.odd import raw, search\n${code}`,
    );
    assertEquals(findings.certain.map(({ evalue }) => evalue), [], code);
  }
});

Deno.test("what schemas rule out is stopped", async () => {
  await using directory = await TempFolder.create();
  await generatePackage("odd", { tools: ODD_TOOLS }, { rootDir: directory.path });
  await using check = await LocalCheck.start(directory.path);
  const wrong: Readonly<Record<string, string>> = {
    'search.run(query="a", json=True, lmit=5)':
      "odd.search.run() got an unexpected argument 'lmit'. Did you mean: 'limit'?",
    'search.run(query="a", json_=True, from_=5)':
      "odd.search.run(): argument 'from_' takes str, not 5",
    'search.run(query="a")': "odd.search.run() is missing a required argument: 'json_'",
    "search.run(json=True)": "odd.search.run() is missing a required argument: 'query'",
    'search.run(query="a", json=True, tags=["a", 5])':
      "odd.search.run(): argument 'tags' takes list[str], not list[str | int]",
    'search.run(query="a", json=True, rank="first")':
      "odd.search.run(): argument 'rank' takes 1 | 2 | 3, not \"first\"",
    'search.run(query="a", json=True, tags="a")':
      "odd.search.run(): argument 'tags' takes list[str], not \"a\"",
    'search.run(query="a", json=True).hits[0].idd':
      "'Hit' object has no attribute 'idd'. Did you mean: 'id'?",
    'search.run(query="a", json=True).hits[0].owner.nmae':
      "'Owner' object has no attribute 'nmae'. Did you mean: 'name'?",
    "search.Options(dpeth=5, deep=True)":
      "Options() got an unexpected argument 'dpeth'. Did you mean: 'depth'?",
  };
  for (const [code, message] of Object.entries(wrong)) {
    const { certain } = await check.check(`from mcptools.odd import search\n${code}`);
    assertEquals(certain.map(({ evalue }) => evalue), [message], code);
  }
});

Deno.test("a server that was registered while the checker ran is known, and one that was removed is not", async () => {
  await using directory = await TempFolder.create();
  const register = (name: string, tool: string) =>
    generatePackage(name, { tools: [{ ...ODD_TOOLS[0], name: tool }] }, {
      rootDir: directory.path,
    });
  await register("one", "find");
  await using check = await LocalCheck.start(directory.path);
  const problems = async (code: string) =>
    (await check.check(code)).certain.map((one) => one.evalue);

  assertEquals(await problems("from mcptools.one import find"), []);
  await register("two", "find");
  assertEquals(await problems("from mcptools.two import find\nfind.run(query='a')"), [
    "two.find.run() is missing a required argument: 'json_'",
  ]);
  await register("two", "seek");
  assertEquals(await problems("from mcptools.two import seek, find"), [
    "cannot import name 'find' from 'mcptools.two'",
  ]);
  await Deno.remove(`${directory.path}/two`, { recursive: true });
  assertEquals(await problems("from mcptools.two import seek"), [
    "No module named 'mcptools.two'. Registered servers: one",
  ]);
});

Deno.test("no Python of the tests, the documents and the templates is stopped", async () => {
  await using directory = await TempFolder.create();
  await using check = await LocalCheck.start(directory.path);
  const found: string[] = [];
  let cells = 0;
  for (const [where, code] of await rightCode()) {
    cells++;
    const { certain } = await check.check(code);
    const own = certain.filter(({ ename }) =>
      !["ModuleNotFoundError", "ImportError"].includes(ename)
    );
    found.push(
      ...own.map(({ line, ename, evalue }) => `${where}:${line + 1}: ${ename}: ${evalue}`),
    );
  }

  assertEquals(found, []);
  assert(cells > 40, `${cells} cells`);
});

/** All Python that is meant to be right, and where it is. Cells of one document follow each other. */
async function rightCode(): Promise<[string, string][]> {
  const found: [string, string][] = [];
  for (const path of await filesBelow(ROOT)) {
    if (path.startsWith("templates/package/")) continue; // what modules are rendered from
    const text = await Deno.readTextFile(new URL(path, ROOT));
    if (path.endsWith(".py")) found.push([path, text]);
    else {
      const blocks = codeBlocks(text, "python").filter((block) => !block.startsWith(">>>"));
      if (blocks.length > 0) found.push([path, blocks.join("\n")]);
    }
  }
  return found;
}

async function filesBelow(folder: URL, below = ""): Promise<string[]> {
  const files: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(new URL(below, folder))) {
    if (name.startsWith(".") || name === "node_modules") continue;
    if (isDirectory) files.push(...await filesBelow(folder, `${below}${name}/`));
    else if (/\.(?:py|md)$/.test(name)) files.push(below + name);
  }
  return files.sort();
}

Deno.test("the stubs of the runtime's classes have all their public names", async () => {
  await using directory = await TempFolder.create();
  for (const { path, text } of assetTree("stubs")) {
    if (path.endsWith("models.pyi")) await Deno.writeTextFile(`${directory.path}/models.pyi`, text);
  }
  const runtime = new URL("templates/runtime", ROOT).pathname;
  const missing = await runScript<Record<string, readonly string[]>>("stub_names.py", [
    `${directory.path}/models.pyi`,
    runtime,
  ]);

  assertEquals(missing, {});
});
