import { z } from "zod";
import type { IndexedTool } from "../../apigen/search.ts";
import type { Session } from "../session.ts";
import { success } from "../failure.ts";
import { addTool, type ToolHost } from "../tool.ts";

const DESCRIPTION = `
Finds tools of the registered MCP servers, and saved actions, to call in execute_ipython_cell. Returns the best matches \
with their import; never guess arguments.

detail: "names", "signatures" (arguments and result fields), "full" (all types and descriptions).
`.trim();

/** How many characters of server names the description has; models get it with every request. */
const MAX_NAMES = 150;

function descriptionWith(servers: readonly string[]): string {
  const shown: string[] = [];
  let room = MAX_NAMES;
  for (const name of servers) {
    room -= name.length + 2;
    if (room < 0) break;
    shown.push(name);
  }
  const rest = servers.length - shown.length;
  const names = [...shown, ...(rest === 0 ? [] : [`${rest} more`])].join(", ") || "none yet";
  return `${DESCRIPTION}\n\nRegistered: ${names}`;
}

/** How many tools a result has room for, by detail. */
const COUNTS = { names: 40, signatures: 12, full: 4 } as const;
/** How many saved actions a result has room for, and how much of each one's interface. */
const ACTION_COUNTS = { names: 20, signatures: 3, full: 3 } as const;
const MAX_ACTION_CHARS = 2000;
/** The most characters of all tools in a result. */
const MAX_CHARS = 12_000;

const DETAILS = ["names", "signatures", "full"] as const;
type Detail = typeof DETAILS[number];

/** Adds `search_tools`, and returns the function that names the servers in its description. */
export function registerSearch(host: ToolHost): (servers: readonly string[]) => void {
  const tool = addTool(host, "search_tools", {
    title: "Search tools",
    withoutKernel: true,
    description: descriptionWith([]),
    input: () =>
      z.object({
        query: z.string().max(1000).default("")
          .describe("What the tool should do (default: list all)"),
        server: z.string().max(1000).default("").describe("Only this server (default: all)"),
        detail: z.enum(DETAILS).default("signatures").describe("Default: signatures"),
      }),
    hints: ["readOnly", "idempotent"],
    activity: "Searching",
  }, async ({ query, server: only, detail }, { session }) => {
    if (only !== "") await requireServer(only, session);
    const found = await session.searchTools(query, only === "" ? undefined : [only]);
    const isAction = ({ module }: IndexedTool) => module.includes("."); // CATEGORY.NAME
    const tools = found.tools.filter((tool) => !isAction(tool));
    const apis = await describeTools(tools, detail);
    for (const action of found.tools.filter(isAction).slice(0, ACTION_COUNTS[detail])) {
      apis.set(action, await describeAction(action, await session.workspace, detail));
    }
    const notes = [
      noteOnRest(tools.filter((tool) => !apis.has(tool)).length, detail),
      found.tools.length === 0 ? `No tools found. ${await knownServers(session)}` : "",
      ...found.missing.map((name) => `${name} has no Python API: register it again`),
      ...found.damaged,
    ].filter((note) => note !== "");
    const separator = detail === "names" ? "\n" : "\n\n";
    const text = [...found.tools.flatMap((tool) => apis.get(tool) ?? []), ...notes].join(separator);
    return success(text);
  });
  return (servers) => {
    tool.description = descriptionWith(servers);
  };
}

/** As many tools as there is room for, but at least one. */
async function describeTools(
  tools: readonly IndexedTool[],
  detail: Detail,
): Promise<Map<IndexedTool, string>> {
  const described = new Map<IndexedTool, string>();
  let room = MAX_CHARS;
  for (const tool of tools.slice(0, COUNTS[detail])) {
    const { server, module } = tool;
    const whole = await describe(tool, detail);
    if (whole.length > room && described.size > 0) break;
    const api = whole.length <= room
      ? whole
      : `${whole.slice(0, room)}\n[cut: the full text is in mcptools/${server}/${module}.py]`;
    described.set(tool, api);
    room -= api.length;
  }
  return described;
}

/** A saved action. Its interface was written by code. */
async function describeAction(
  { name, description }: IndexedTool,
  workspace: string,
  detail: Detail,
): Promise<string> {
  const { ACTIONS, readAction } = await savedActions();
  if (detail === "names") return `${ACTIONS}.${name}: ${description}`;
  const [category, action] = name.split(".");
  const api = (await readAction(workspace, name, "api") ?? "").trim();
  const shown = api.length <= MAX_ACTION_CHARS
    ? api
    : `${api.slice(0, MAX_ACTION_CHARS)}\n[cut: see ${ACTIONS}/${category}/${action}/api.py]`;
  return `from ${ACTIONS}.${category} import ${action}\n${indented(shown)}`;
}

/** Imported with the first search, because many sessions have none. */
const savedActions = () => import("../../apigen/saved_actions.ts");
const signatures = () => import("../../apigen/signature.ts");

async function describe(tool: IndexedTool, detail: Detail): Promise<string> {
  const { server, module, name, description, definition, results } = tool;
  switch (detail) {
    case "names": {
      const { firstSentence } = await import("../../apigen/package.ts");
      return `${server}.${module}: ${firstSentence(description)}`;
    }
    case "signatures": {
      const { signatureOf } = await signatures();
      const signature = signatureOf({ server, module, tool: name }, definition, results);
      return `from mcptools.${server} import ${module}\n${signature}\n` +
        indented(shortened(description.trim()));
    }
    case "full": {
      const { stubOf } = await signatures();
      const stub = stubOf({ server, module, tool: name }, definition, results);
      return [`from mcptools.${server} import ${module}`, stub, comment(description.trim())]
        .filter((part) => part !== "").join("\n");
    }
  }
}

function noteOnRest(rest: number, detail: Detail): string {
  if (rest <= 0) return "";
  const more = detail === "names" ? "" : ', or ask for detail "names"';
  return `[${rest} more match: use more specific words or name a server${more}]`;
}

const MAX_DESCRIPTION = 400;

function shortened(text: string): string {
  return text.length <= MAX_DESCRIPTION ? text : `${text.slice(0, MAX_DESCRIPTION).trimEnd()} …`;
}

function comment(text: string): string {
  return text === "" ? "" : text.split("\n").map((line) => `# ${line}`.trimEnd()).join("\n");
}

function indented(text: string): string {
  return text.split("\n").map((line) => `    ${line}`.trimEnd()).join("\n");
}

/** Throws unless a server is registered. */
export async function requireServer(name: string, session: Session): Promise<void> {
  if ((await session.servers()).includes(name)) return;
  throw new Error(`No server "${name}" is registered. ${await knownServers(session)}`);
}

export async function knownServers(session: Session): Promise<string> {
  const servers = await session.servers();
  if (servers.length > 0) return `Registered servers: ${servers.join(", ")}`;
  const how = session.changes === "fixed" ? "" : ": register one with register_mcp_server";
  return `No servers are registered${how}`;
}
