/**
 * Writes `src/assets/embedded.json` from `templates/`; with `--check` it only compares the two.
 *
 * @module
 */
const templates = new URL("../templates/", import.meta.url);
const target = new URL("../src/assets/embedded.json", import.meta.url);

/** The files that are embedded: the code that runs elsewhere, not its checks or documentation. */
const EMBEDDED = /\.(pyi?|sh|txt|json|html|css|js|svg)$/;

/** Reads `templates/` and gives the text that `embedded.json` should have. */
async function embedText(): Promise<string> {
  const files = new Map<string, string>();
  await collect(templates, "", files);
  const sorted = [...files].sort(([a], [b]) => a < b ? -1 : 1);
  return JSON.stringify(Object.fromEntries(sorted), null, 2) + "\n";
}

async function collect(folder: URL, prefix: string, files: Map<string, string>): Promise<void> {
  for await (const entry of Deno.readDir(folder)) {
    if (entry.isDirectory && !entry.name.startsWith(".") && !entry.name.startsWith("__")) {
      await collect(new URL(`${entry.name}/`, folder), `${prefix}${entry.name}/`, files);
    } else if (entry.isFile && EMBEDDED.test(entry.name)) {
      files.set(prefix + entry.name, await Deno.readTextFile(new URL(entry.name, folder)));
    }
  }
}

if (import.meta.main) {
  const fresh = await embedText();
  if (Deno.args.includes("--check")) {
    if (await Deno.readTextFile(target) !== fresh) {
      throw new Error("src/assets/embedded.json is stale: run `deno task embed`");
    }
  } else {
    await Deno.writeTextFile(target, fresh);
  }
}
