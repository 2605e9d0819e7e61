import { assert, assertEquals } from "@std/assert";
import { dirname, relative, resolve } from "node:path";
import config from "../deno.json" with { type: "json" };

/** The folders of `src/` that each folder may import beside itself and the base. */
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  assets: [],
  json: [],
  process: [],
  link: ["process"],
  files: ["process"],
  sandbox: ["assets", "files", "process"],
  python: ["assets", "files", "process", "sandbox"],
  place: ["assets", "files", "link", "process", "sandbox"],
  kernel: ["files", "link", "place", "process", "sandbox"],
  mcp: ["files", "process", "sandbox"],
  approval: ["mcp"],
  "approval/page": ["approval", "assets", "mcp"],
  "approval/rules": ["approval", "files", "process", "sandbox"],
  "approval/audit": ["approval", "approval/rules", "files"],
  servers: ["approval", "files", "mcp", "process", "sandbox"],
  calls: [
    "approval",
    "approval/audit",
    "approval/page",
    "approval/rules",
    "files",
    "mcp",
    "servers",
  ],
  apigen: ["assets", "files", "mcp"],
  check: ["apigen", "assets", "files", "kernel"],
  executor: [
    "apigen",
    "approval",
    "approval/audit",
    "approval/page",
    "calls",
    "check",
    "files",
    "kernel",
    "mcp",
    "place",
    "python",
    "sandbox",
    "servers",
  ],
  mcp_server: [
    "apigen",
    "approval",
    "approval/audit",
    "approval/page",
    "approval/rules",
    "assets",
    "calls",
    "executor",
    "files",
    "kernel",
    "place",
    "mcp",
    "process",
    "python",
    "sandbox",
    "servers",
  ],
};

/** Imported from everywhere; they import nothing else of ours. */
const BASE = ["base", "json", "std"];

/** Types that other folders import against the table. */
const SHARED_TYPES: readonly (readonly [importer: RegExp, module: string])[] = [
  // Each folder takes its group of the options, which `deno doc` shows on one page.
  [/^src\/(calls|kernel|mcp|place|servers)\//, "src/executor/options.ts"],
  [/^src\/base\/errors\.ts$/, "src/kernel/outputs.ts"], // an error has the result so far
];

/** The one place in which each of these packages is imported. */
const SOLE_IMPORTERS: readonly (readonly [specifier: RegExp, importer: RegExp])[] = [
  [/^@modelcontextprotocol\/client/, /^src\/mcp\/sdk\.ts$/],
  [/^@modelcontextprotocol\/server/, /^src\/mcp_server\/sdk\.ts$/],
  [/^@modelcontextprotocol\/sdk/, /^tests\//],
  [/^@jupyterlab\//, /^src\/kernel\//],
  [/^@eslint-community\//, /^src\/apigen\/pattern\.ts$/],
  [/^@opentelemetry\//, /^src\/base\/telemetry\.ts$/],
  [/^npm:/, /^tests\//],
];

const root = resolve(import.meta.dirname ?? ".", "..");

Deno.test("Folders of src/ import what the table allows, to which ARCHITECTURE.md points, and no entry is unused", async () => {
  const edges = await importsOfSources();
  assertEquals(edges.filter((edge) => !isAllowed(edge)).map(describe), []);
  const used = new Set(edges.map(({ from, to }) => `${folderOf(from)} -> ${folderOf(to)}`));
  const allowed = Object.entries(ALLOWED).flatMap(([from, to]) =>
    to.map((to) => `${from} -> ${to}`)
  );
  assertEquals(allowed.filter((edge) => !used.has(edge)), []);
});

Deno.test("Modules of src/ import each other without cycles, of values and of types", async () => {
  assertEquals(findCycle(await importsOfSources()), []);
});

Deno.test("Each SDK is imported in one place", async () => {
  const wrong = (await importsOfSources()).flatMap((edge) =>
    SOLE_IMPORTERS
      .filter(([specifier, importer]) =>
        specifier.test(edge.specifier) && !importer.test(edge.from)
      )
      .map(() => describe(edge))
  );
  assertEquals(wrong, []);
});

Deno.test("Nothing in src/ but commands/ reads arguments, prints to stdout or uses console", async () => {
  const wrong: string[] = [];
  for await (const path of sources("src")) {
    if (path.startsWith("src/commands/") || path.endsWith("_test.ts")) continue;
    const text = await Deno.readTextFile(resolve(root, path));
    if (
      /\bDeno\.args\b|\bDeno\.stdout\b|\bconsole\.|"node:process"/.test(withoutComments(text))
    ) {
      wrong.push(path);
    }
  }
  assertEquals(wrong, []);
});

/** Where processes are started, from a `ProgramPath` only. */
const STARTERS = ["src/process/managed_process.ts", "src/process/run_program.ts"];
/** Where a `ProgramPath` is made, which is a text to everybody else. */
const FINDER = "src/process/program.ts";

Deno.test("The host starts no program but those that one module finds or takes by their path", async () => {
  const wrong: string[] = [];
  const paths = Object.values(config.exports);
  for (const folder of ["src", "packaging"]) paths.push(...await Array.fromAsync(sources(folder)));
  for (const path of paths.filter((path) => !path.endsWith("_test.ts"))) {
    const text = withoutComments(await Deno.readTextFile(resolve(root, path)));
    // Also what would get around the name: Deno["Command"], const { Command } = Deno, const d = Deno.
    const starts = /\bDeno\s*(\.\s*Command\b|\[)|=\s*Deno\s*[;,)\n]|child_process/.test(text);
    if (starts && !STARTERS.includes(path)) wrong.push(`${path} starts a program`);
    const makes = /\b(as|is)\s+ProgramPath\b|<\s*ProgramPath\s*>\s*[\w("'`]/.test(text);
    if (makes && path !== FINDER) wrong.push(`${path} makes a ProgramPath`);
  }
  assertEquals(wrong, []);
});

/** What is large, or takes long to load, and where it is only loaded once it is needed. */
const LATER: readonly (readonly [start: string, later: RegExp])[] = [
  ["mod.ts", /^src\/(mcp|mcp_server)\/sdk\.ts$/],
  ["src/executor/code_executor.ts", /^src\/mcp\/sdk\.ts$|^src\/apigen\/(generate|pattern)\.ts$/],
  ["src/commands/mcp.ts", /^src\/approval\/rules\/(schema|rules)\.ts$/],
  ["src/mcp_server/stdio.ts", /^src\/mcp\/sdk\.ts$|^src\/kernel\/kernel\.ts$|^src\/apigen\//],
];

for (const [start, later] of LATER) {
  Deno.test(`${start} does not load ${later.source} before it is needed`, async () => {
    const edges = (await importsOfSources()).filter((edge) => !edge.typeOnly && !edge.dynamic);
    const next = Map.groupBy(edges, (edge) => edge.from);
    const loaded = new Set([start]);
    for (const path of loaded) for (const edge of next.get(path) ?? []) loaded.add(edge.to); // it grows
    assert(loaded.size > 10);
    assertEquals([...loaded].filter((path) => later.test(path)), []);
  });
}

interface Edge {
  readonly from: string;
  readonly to: string;
  readonly specifier: string;
  readonly typeOnly: boolean;
  readonly dynamic: boolean;
}

function describe(edge: Edge): string {
  return `${edge.from} imports ${edge.specifier}`;
}

function isAllowed({ from, to, typeOnly }: Edge): boolean {
  if (!from.startsWith("src/")) return true; // what others import joins everything
  if (!to.startsWith("src/")) return !/^\w+\.ts$|^(tests|benchmarks|examples)\//.test(to);
  const [source, target] = [folderOf(from), folderOf(to)];
  if (source === target || source === "commands") return true;
  if (BASE.includes(target)) return true;
  if (typeOnly && SHARED_TYPES.some(([by, it]) => by.test(from) && it === to)) return true;
  return !BASE.includes(source) && (ALLOWED[source] ?? []).includes(target);
}

/** A folder of `src/`, or one of those in `approval/`, each of which owns a thing. */
function folderOf(path: string): string {
  const [, folder = "", inner = ""] = path.split("/");
  return folder === "approval" && !inner.endsWith(".ts") ? `${folder}/${inner}` : folder;
}

function findCycle(edges: readonly Edge[]): string[] {
  const next = Map.groupBy(edges, (edge) => edge.from);
  const finished = new Set<string>();
  const visit = (path: string, trail: string[]): string[] => {
    if (trail.includes(path)) return [...trail.slice(trail.indexOf(path)), path];
    if (finished.has(path)) return [];
    for (const edge of next.get(path) ?? []) {
      const cycle = visit(edge.to, [...trail, path]);
      if (cycle.length > 0) return cycle;
    }
    finished.add(path);
    return [];
  };
  for (const start of next.keys()) {
    const cycle = visit(start, []);
    if (cycle.length > 0) return cycle;
  }
  return [];
}

let known: Promise<Edge[]> | undefined;

function importsOfSources(): Promise<Edge[]> {
  known ??= collectImports();
  return known;
}

/** Every import of our own sources, tests beside them left out. */
async function collectImports(): Promise<Edge[]> {
  const edges: Edge[] = [];
  const entries = Object.values(config.exports).map((path) => path.replace("./", ""));
  for await (const path of sources("src")) {
    if (!path.endsWith("_test.ts")) entries.push(path);
  }
  for (const from of entries) {
    const text = withoutComments(await Deno.readTextFile(resolve(root, from)));
    const statements =
      /\b(import|export)\s+(type\s+)?(?:[\w*{}\s,$]*?\bfrom\s+)?"([^"]+)"|\bimport\(\s*"([^"]+)",?\s*\)/g;
    for (const [, , type, fixed, dynamic] of text.matchAll(statements)) {
      const specifier = fixed ?? dynamic ?? "";
      const to = specifier.startsWith(".")
        ? relative(root, resolve(root, dirname(from), specifier))
        : specifier;
      edges.push({
        from,
        to: to.startsWith("@std/") ? `src/std/${to}` : to,
        specifier,
        typeOnly: type !== undefined,
        dynamic: dynamic !== undefined,
      });
    }
  }
  return edges;
}

function withoutComments(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\//g, "").replaceAll(/(^|\s)\/\/.*$/gm, "$1");
}

async function* sources(folder: string): AsyncGenerator<string> {
  for await (const entry of Deno.readDir(resolve(root, folder))) {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory) yield* sources(path);
    else if (/\.ts$/.test(entry.name) && !entry.name.endsWith(".d.ts")) yield path;
  }
}
