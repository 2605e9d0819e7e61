/**
 * No pattern takes more than linear time, whatever it meets: each one in the code that runs on the host
 * and in the approval page is checked, so that nobody has to decide which texts are hostile.
 */
import { assert, assertEquals } from "@std/assert";
import recheck from "npm:recheck@4.5.0/lib/browser.js";

interface Pattern {
  readonly file: string;
  readonly source: string;
  readonly flags: string;
}

interface Verdict {
  readonly status: "safe" | "vulnerable" | "unknown";
  readonly complexity?: { readonly summary: string };
}

/** Some are judged by trying texts, the same ones each time. Steps are counted: time depends on load. */
const OPTIONS = {
  timeout: 600_000,
  attackTimeout: 60_000,
  incubationTimeout: 60_000,
  randomSeed: 1,
};

const check: (source: string, flags: string, options: typeof OPTIONS) => Verdict =
  recheck.checkSync;

const root = new URL("../../", import.meta.url);

/**
 * The patterns that take long to check and were found safe, by the tool and with the options named.
 * A pattern that changes is checked again. To write the file after a full check of all of them:
 * `deno test -A tests/security/regex_test.ts -- --update`.
 */
const CHECKED = new URL("tests/security/linear_patterns.json", root);
const SLOW_MS = 10;

Deno.test("every pattern takes linear time", async () => {
  const { literals, constructing } = await readSources();
  const patterns = [...literals, ...await constructed(constructing)];
  assert(patterns.length > 250, `only ${patterns.length} were found`);
  const known = new Map(
    patterns.map((pattern) => [`/${pattern.source}/${pattern.flags}`, pattern]),
  );
  const update = Deno.args.includes("--update");
  const by = JSON.stringify(["npm:recheck@4.5.0", OPTIONS]);
  const checked = JSON.parse(await Deno.readTextFile(CHECKED));
  const safe = new Set<string>(update || checked.by !== by ? [] : checked.safe);
  const slow: string[] = [];
  const wrong = [...known].flatMap(([shown, { file, source, flags }]) => {
    if (safe.has(shown)) return [];
    const start = performance.now();
    const { status, complexity } = check(source, flags, OPTIONS);
    if (status !== "safe") return [`${file}: ${shown} is ${complexity?.summary ?? status}`];
    if (performance.now() - start > SLOW_MS) slow.push(shown);
    return [];
  });
  if (update) {
    const text = JSON.stringify({ by, safe: slow.sort() }, null, 2);
    await Deno.writeTextFile(CHECKED, `${text}\n`);
  }
  assertEquals(wrong, []);
});

/** The patterns that are written as such, and the modules with `new RegExp()`, other than to copy one that has a name. */
async function readSources(): Promise<{ literals: Pattern[]; constructing: Set<string> }> {
  const literals: Pattern[] = [];
  const constructing = new Set<string>();
  for await (const file of sources()) {
    const visitor: Deno.lint.LintVisitor = {
      Literal(node) {
        if (!("regex" in node) || node.regex === undefined) return;
        const { pattern: source, flags } = node.regex;
        literals.push({ file, source, flags });
      },
      NewExpression({ callee, arguments: [only, ...others] }) {
        const isCopy = only?.type === "Identifier" && others.length === 0;
        if (callee.type === "Identifier" && callee.name === "RegExp" && !isCopy) {
          constructing.add(file);
        }
      },
    };
    const plugin = { name: "all", rules: { all: { create: () => visitor } } };
    Deno.lint.runPlugin(plugin, file, await Deno.readTextFile(new URL(file, root)));
  }
  return { literals, constructing };
}

/** The patterns that modules put together while they are loaded: seen as they do. */
async function constructed(constructing: Set<string>): Promise<Pattern[]> {
  const patterns: Pattern[] = [];
  const builtIn = globalThis.RegExp;
  let file = "";
  globalThis.RegExp = new Proxy(builtIn, {
    construct(target, args, newTarget) {
      const pattern = Reflect.construct(target, args, newTarget);
      patterns.push({ file, source: pattern.source, flags: pattern.flags });
      return pattern;
    },
  });
  try {
    for (file of constructing) {
      const before = patterns.length;
      await import(`${new URL(file, root)}?seen`); // also where it was loaded before
      assert(patterns.length > before, `${file} makes its patterns later, unseen`);
    }
  } finally {
    globalThis.RegExp = builtIn;
  }
  return patterns;
}

async function* sources(): AsyncGenerator<string> {
  yield* below("src/", (name) => name.endsWith(".ts") && !/(?:_test|\.d)\.ts$/.test(name));
  yield* below("templates/", (name) => name.endsWith(".js"));
}

async function* below(folder: string, wanted: (name: string) => boolean): AsyncGenerator<string> {
  for await (const { name, isDirectory } of Deno.readDir(new URL(folder, root))) {
    if (isDirectory) yield* below(`${folder}${name}/`, wanted);
    else if (wanted(name)) yield folder + name;
  }
}
