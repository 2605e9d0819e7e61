/**
 * No pattern takes more than linear time, whatever it meets: each one in the code that runs on the host
 * and in the approval page is checked, so that nobody has to decide which texts are hostile.
 */
import { assert, assertEquals } from "@std/assert";
import recheck from "recheck/lib/browser.js";

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

Deno.test("every pattern takes linear time", async () => {
  const patterns = [...await literals(), ...await constructed()];
  assert(patterns.length > 250, `only ${patterns.length} were found`);
  const known = new Map(
    patterns.map((pattern) => [`/${pattern.source}/${pattern.flags}`, pattern]),
  );
  const wrong = [...known].flatMap(([shown, { file, source, flags }]) => {
    const { status, complexity } = check(source, flags, OPTIONS);
    return status === "safe" ? [] : [`${file}: ${shown} is ${complexity?.summary ?? status}`];
  });
  assertEquals(wrong, []);
});

/** The patterns that are written as such. */
async function literals(): Promise<Pattern[]> {
  const patterns: Pattern[] = [];
  await visitSources((file) => ({
    Literal(node) {
      if (!("regex" in node) || node.regex === undefined) return;
      const { pattern: source, flags } = node.regex;
      patterns.push({ file, source, flags });
    },
  }));
  return patterns;
}

/** The patterns that modules put together while they are loaded: seen as they do. */
async function constructed(): Promise<Pattern[]> {
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
    for (file of await constructing()) {
      const before = patterns.length;
      await import(`${new URL(file, root)}?seen`); // also where it was loaded before
      assert(patterns.length > before, `${file} makes its patterns later, unseen`);
    }
  } finally {
    globalThis.RegExp = builtIn;
  }
  return patterns;
}

/** The modules with `new RegExp()`, other than to copy a pattern that has a name. */
async function constructing(): Promise<Set<string>> {
  const files = new Set<string>();
  await visitSources((file) => ({
    NewExpression({ callee, arguments: [only, ...others] }) {
      const isCopy = only?.type === "Identifier" && others.length === 0;
      if (callee.type === "Identifier" && callee.name === "RegExp" && !isCopy) files.add(file);
    },
  }));
  return files;
}

async function visitSources(visitor: (file: string) => Deno.lint.LintVisitor): Promise<void> {
  for await (const file of sources()) {
    const plugin = { name: "all", rules: { all: { create: () => visitor(file) } } };
    Deno.lint.runPlugin(plugin, file, await Deno.readTextFile(new URL(file, root)));
  }
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
