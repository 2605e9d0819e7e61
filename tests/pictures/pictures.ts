// deno-lint-ignore-file no-console -- a script talks to whoever started it
/**
 * `deno task pictures [--to DIR]`: makes the pictures of README and `docs/`, in `docs/images/` or
 * another folder, from real sessions.
 *
 * - demo.svg: a session at a terminal, which plays
 * - approval.png: the approval page with calls that wait
 *
 * @module
 */
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { withBrowser } from "../support/browser.ts";
import { Home } from "./home.ts";
import { photographPage } from "./page.ts";
import type { Recording } from "./recording.ts";
import { COLUMNS, recordSession } from "./session.ts";
import { animatedTerminal } from "./svg.ts";

const { values } = parseArgs({ options: { to: { type: "string" } } });
const folder = resolve(values.to ?? fileURLToPath(new URL("../../docs/images/", import.meta.url)));
await using home = await Home.create();
await Deno.mkdir(folder, { recursive: true });

console.error("Recording a session at a terminal");
const recording = await recordSession(home);
const demo = animatedTerminal(recording, {
  columns: COLUMNS,
  rows: rowsOfLastCommand(recording),
  title: "~/project",
  description:
    "A terminal: an MCP server is registered, code loops over its tools, and ipybox asks before it calls",
});
await Deno.writeTextFile(`${folder}/demo.svg`, demo);
console.log(`${folder}/demo.svg`);

console.error("Photographing the approval page");
const page = await withBrowser((browser) => photographPage(browser, home));
await Deno.writeFile(`${folder}/approval.png`, page);
console.log(`${folder}/approval.png`);

/** How many rows the last command at the shell has, which are all in view at the end. */
function rowsOfLastCommand({ spans }: Recording): number {
  const start = spans.findLast(({ column, cells }) => column === 0 && cells[0]?.char === "$");
  return 1 + (spans.at(-1)?.row ?? 0) - (start?.row ?? 0);
}
