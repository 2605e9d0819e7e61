import { z } from "zod";
import { completable, type GetPromptResult, type SdkMcpServer } from "./sdk.ts";
import type { Session } from "./session.ts";

/** Adds the prompts. */
export function registerPrompts(server: SdkMcpServer, session: Session): void {
  server.registerPrompt("code_action", {
    title: "Solve a task with code",
    description: "Solves a task with Python code that chains tools of registered MCP servers",
    argsSchema: z.object({ task: z.string().describe("What to do") }),
  }, ({ task }) => userMessage(`${task}\n\n${CODE_ACTION}`));

  server.registerPrompt("use_server", {
    title: "Use an MCP server from code",
    description: "Explores the Python API of one registered MCP server",
    argsSchema: z.object({
      server: completable(
        z.string().describe("The registered server"),
        async (begun) => (await session.servers()).filter((name) => name.startsWith(begun)),
      ),
    }),
  }, ({ server: name }) => userMessage(USE_SERVER.replaceAll("SERVER", () => name)));

  server.registerPrompt("debug_cell", {
    title: "Debug a failed cell",
    description: "Finds out why a cell failed, and fixes it without repeating work",
  }, () => userMessage(DEBUG_CELL));
}

function userMessage(text: string): GetPromptResult {
  return { messages: [{ role: "user", content: { type: "text", text } }] };
}

const CODE_ACTION = `
Do this with code in ipybox:

1. Find tools with search_tools, detail "names". Search again with other words if nothing fits.
2. Read the API of the tools you chose with search_tools, detail "full". Note which fields the
   results have; a tool whose result is a plain str has to be tried once to see what it looks like.
3. Write one cell that does the whole job: call tools, loop, filter and combine in Python, keep what may
   be needed later in variables, and print only what answers the task.
4. Call independent tools at the same time: \`import asyncio\`, then
   \`await asyncio.gather(*(TOOL.run_async(...) for ...))\`.
5. If a call is refused, say so and ask; do not try to achieve the same effect another way.
`.trim();

const USE_SERVER = `
Get to know the MCP server SERVER before you use it from code in ipybox:

1. List its tools: search_tools with an empty query, server "SERVER" and detail "names".
2. Tell me in a few lines what it can do, by groups of tools, and which tools change something.
3. For the tools that the conversation needs, read the full API (search_tools, detail "full").
4. Try one read-only tool in a cell, and print a short form of its result:
   \`from mcptools.SERVER import TOOL; print(repr(TOOL.run(...))[:500])\`
`.trim();

const DEBUG_CELL = `
The last cell in ipybox failed. Find out why and fix it:

1. Read the traceback from its end, and the output before it. After a timeout, a cancellation or the
   death of the kernel the text says so, and whether variables were kept; an exception keeps them.
2. If variables were kept, look at them in a small cell instead of running everything again. Calls that
   have succeeded must not be repeated when they change something; those that failed are listed.
3. For wrong arguments, read the tool's full API with search_tools and correct the call. For an
   ApprovalRejectedError, stop and ask me.
4. For a timeout, do the work in smaller parts or use a larger timeout. If the kernel died, the
   message says what killed it, usually a lack of memory.
5. Run only what is missing, and say what was wrong.
`.trim();
