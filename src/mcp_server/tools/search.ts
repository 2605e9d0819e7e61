import { join } from "node:path";
import { z } from "zod";
import { firstSentence } from "../../apigen/generate.ts";
import { signatureOf } from "../../apigen/signature.ts";
import type { IndexedTool } from "../../apigen/tool_index.ts";
import { readHostileFile } from "../../mcp/hostile_files.ts";
import { explained } from "../failure.ts";
import type { SdkMcpServer } from "../sdk.ts";
import type { Session } from "../session.ts";
import type { DeclareInput } from "../tool_input.ts";
import { knownServers } from "./known_servers.ts";

const DESCRIPTION = `
Finds tools of the registered MCP servers by what they do, for use in execute_ipython_cell.

Give words for the task, such as "create issue" or "list files"; the best matches come first. An empty \
query lists all tools. detail says how much comes back of each:

- "names": one line, for an overview of many tools
- "signatures": how to call it, and what it does (default)
- "full": its whole Python API with all argument and result types, for the best few

Look for names first, read the full API of the tools that you will use, then write one cell that \
chains their calls: \`from mcptools.SERVER import TOOL; TOOL.run(...)\`.
`.trim();

const outputSchema = z.object({
  tools: z.array(z.object({
    server: z.string(),
    module: z.string().describe("Import it with: from mcptools.SERVER import MODULE"),
    name: z.string().describe("Its name at its server"),
    api: z.string().describe("The tool in the detail that was asked for"),
  })),
  matches: z.number().describe("How many tools match, also those that are not listed"),
});

/** How many tools there is room for in an answer, by detail. */
const COUNTS = { names: 40, signatures: 12, full: 4 } as const;
/** The most characters of an answer. */
const MAX_CHARS = 12_000;

const DETAILS = ["names", "signatures", "full"] as const;
type Detail = typeof DETAILS[number];

/** Adds `search_tools`. */
export function registerSearch(
  server: SdkMcpServer,
  session: Session,
  declare: DeclareInput,
): void {
  server.registerTool("search_tools", {
    title: "Search tools",
    description: DESCRIPTION,
    inputSchema: declare(z.object({
      query: z.string().max(1000).default("")
        .describe("What the tool should do, in a few words (default: list all tools)"),
      server: z.string().default("").describe("Search this server only (default: all)"),
      detail: z.enum(DETAILS).default("signatures")
        .describe('How much of each tool is returned (default "signatures")'),
    })),
    ...session.answers.declare(outputSchema),
    annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
  }, async ({ query, server: only, detail }) => {
    try {
      if (only !== "" && !(await session.servers()).includes(only)) {
        throw new Error(`No server "${only}" is registered. ${await knownServers(session)}`);
      }
      const found = await session.searchTools(query, only === "" ? undefined : [only]);
      const shown = await describeTools(found.tools, detail, await session.mcptools());
      const notes = [
        noteOnRest(found.tools.length - shown.length, detail),
        found.tools.length === 0 ? `No tools found. ${await knownServers(session)}` : "",
        ...found.missing.map((name) => `${name} has no Python API: register it again`),
      ].filter((note) => note !== "");
      const separator = detail === "names" ? "\n" : "\n\n";
      const text = [...shown.map(({ api }) => api), ...notes].join(separator);
      return session.answers.of({ text, report: { tools: shown, matches: found.tools.length } });
    } catch (error) {
      return explained(error);
    }
  });
}

interface DescribedTool {
  server: string;
  module: string;
  name: string;
  api: string;
}

/** As many tools as there is room for, but one at least. */
async function describeTools(
  tools: readonly IndexedTool[],
  detail: Detail,
  root: string,
): Promise<DescribedTool[]> {
  const described: DescribedTool[] = [];
  let room = MAX_CHARS;
  for (const tool of tools.slice(0, COUNTS[detail])) {
    const { server, module, name } = tool;
    const whole = await describe(tool, detail, root);
    if (whole.length > room && described.length > 0) break;
    const api = whole.length <= room
      ? whole
      : `${whole.slice(0, room)}\n[cut: the whole is in mcptools/${server}/${module}.py]`;
    described.push({ server, module, name, api });
    room -= api.length;
  }
  return described;
}

async function describe(tool: IndexedTool, detail: Detail, root: string): Promise<string> {
  const { server, module, name, description, definition } = tool;
  switch (detail) {
    case "names":
      return `${server}.${module}: ${firstSentence(description)}`;
    case "signatures": {
      const signature = signatureOf({ server, module, tool: name }, definition);
      return `from mcptools.${server} import ${module}\n${signature}\n` +
        indented(shortened(description.trim()));
    }
    case "full": {
      const path = `mcptools/${server}/${module}.py`;
      const source = await readHostileFile(join(root, server, `${module}.py`));
      return source === undefined ? `# ${path} is gone` : `# ${path}\n${source.trim()}`;
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

function indented(text: string): string {
  return text.split("\n").map((line) => `    ${line}`.trimEnd()).join("\n");
}
