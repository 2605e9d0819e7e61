import { assert, assertEquals } from "@std/assert";

const table = new URL("reference_behaviours.md", import.meta.url);
const root = new URL("../", import.meta.url);

Deno.test("Every behaviour of the reference names tests that exist", async () => {
  const lines = (await Deno.readTextFile(table)).split("\n");
  const rows = lines.filter((line) => line.startsWith("| ") && !/^\| (-|Behaviour)/.test(line));
  assert(rows.length > 50, "the table is not where it is looked for");
  const missing: string[] = [];
  for (const row of rows) {
    const named = [...row.matchAll(/`([\w/]+_test\.ts)` “([^”]+)”/g)];
    if (named.length === 0) missing.push(`no test: ${row}`);
    for (const [, path = "", name = ""] of named) {
      const text = await Deno.readTextFile(new URL(path, root)).catch(() => "");
      const quoted = [`"${name}"`, `\`${name}\``].some((literal) => text.includes(literal));
      if (!quoted) missing.push(`${path} has no test “${name}”`);
    }
  }
  assertEquals(missing, []);
});
