import type { StaleTools } from "../apigen/stale.ts";

/** How many modules are named of each kind. */
const MAX_NAMES = 10;

/** What became of a server's modules since somebody was told. */
export class ApiNews {
  readonly #added = new Set<string>();
  readonly #changed = new Set<string>();
  readonly #removed = new Set<string>();

  /** Adds what is different once more. */
  add(stale: StaleTools, modules: ReadonlyMap<string, string>): void {
    const named = (tools: readonly string[]) => tools.flatMap((tool) => modules.get(tool) || []);
    for (const module of named(stale.removed)) {
      this.#changed.delete(module);
      if (!this.#added.delete(module)) this.#removed.add(module);
    }
    for (const module of named(stale.added)) {
      if (this.#removed.delete(module)) this.#changed.add(module);
      else this.#added.add(module);
    }
    for (const module of named(stale.changed)) {
      if (!this.#added.has(module)) this.#changed.add(module);
    }
  }

  /** It in a line; `undefined` where nothing came of it. */
  line(server: string): string | undefined {
    const parts = [
      ...part("new", this.#added),
      ...part("changed (importlib.reload() what you imported)", this.#changed),
      ...part("gone", this.#removed),
    ];
    if (parts.length === 0) return undefined;
    const what = `The tools of MCP server "${server}" changed; mcptools.${server} has`;
    return `[ipybox] ${what} ${parts.join("; ")}`;
  }
}

function part(what: string, modules: ReadonlySet<string>): string[] {
  if (modules.size === 0) return [];
  const names = [...modules];
  const rest = names.length - MAX_NAMES;
  const more = rest > 0 ? ` and ${rest} more` : "";
  return [`${what}: ${names.slice(0, MAX_NAMES).join(", ")}${more}`];
}
