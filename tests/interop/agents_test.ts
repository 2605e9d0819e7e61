/**
 * Agent programs with `ipybox mcp` on stdio, and a scripted model in place of a real one: what counts
 * is what a model is given, to the byte where it is text.
 */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { type Agent, AGENTS } from "../support/agents.ts";
import { cliArguments } from "../support/cli.ts";
import { exists } from "../support/files.ts";
import { until } from "../support/wait.ts";
import { CELL, REGISTRATION } from "../support/interop.ts";
import { McpHost } from "../support/mcp_client.ts";
import { untilNoneWith } from "../support/processes.ts";
import { testPython } from "../support/python.ts";
import { ScriptedModel, type Seen, type Step } from "../support/scripted_model.ts";
import { testIf } from "../support/skip.ts";
import { denoDirectory } from "../support/temp_cache.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { ipyboxAtTerminal, type TerminalEnd, type Typing } from "../support/terminal.ts";

/** In two parts, so that it is in a request where the model is shown it, and nowhere else. */
const PNG = [
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ",
  "AAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==",
] as const;

const ERROR = `before

---------------------------------------------------------------------------
ZeroDivisionError                         Traceback (most recent call last)
Cell In[1], line 2
      1 print("before")
----> 2 1 / 0

ZeroDivisionError: division by zero`;

const LOOP = `from mcptools.sums import echo, get_sum
for i in range(2):
    print(echo.run(message=f"{i} is {get_sum.run(a=i, b=40)}"))`;

const REGISTERED = "Registered sums: echo, get_sum";

const ENDLESS = `kept = "kept"
open("begun", "w").close()
import time
time.sleep(1000)`;

for (const agent of AGENTS) {
  const { name, program } = agent;
  testIf("path" in program, "missing" in program ? program.missing : "", {
    name: `${name} gives its model what ipybox mcp gave it`,
    fn: () => tryAgent(agent, "path" in program ? program.path : ""),
  });
}

async function tryAgent(agent: Agent, program: string): Promise<void> {
  await using home = await TempFolder.create();
  await using workspace = await TempFolder.create();
  const at = (file: string) => `${workspace.path}/${file}`;
  const state = { XDG_STATE_HOME: `${home.path}/state` };
  let person: Promise<TerminalEnd> | undefined;
  let interrupting: Promise<void> | undefined;

  /** Does what the model would tell its user to do. */
  const follow = async (previous: Seen | undefined) => {
    assertNamesTerminal(agent, previous, workspace.path);
    const yes = (what: string): Typing[] => [[what, ""], ["Allow? ", "y\n"]];
    person = ipyboxAtTerminal(["approvals", "--workspace", workspace.path], [
      [`Deciding for ${workspace.path}`, "", at("attached")],
      ...yes("register_mcp_server"),
      ...["get-sum", "echo", "get-sum", "echo"].flatMap((tool) => yes(`sums.${tool}`)),
      [`${workspace.path} has ended`, "\x03"],
    ], { env: state, columns: 300 });
    await until("the terminal decides", () => exists(at("attached")));
  };

  let interrupt = () => Promise.resolve();
  const interruptIt = () => {
    interrupting = until("the endless cell has begun", () => exists(at("begun"))).then(interrupt);
    interrupting.catch(() => {}); // it is awaited when the turn is over
    return Promise.resolve();
  };

  const cell = (code: string): Step => ({ tool: CELL, args: { code } });
  const denoDir = await denoDirectory();
  const register = { tool: "register_mcp_server", args: REGISTRATION };
  const script: Step[] = [
    cell(`print("hello")\n40 + 2`),
    cell(`print("before")\n1 / 0`),
    cell(`import base64
from IPython.display import Image, display
display(Image(base64.b64decode("${PNG[0]}" + "${PNG[1]}")))
print("a picture")`),
    cell(`for i in range(3000): print(i)`),
    register,
    { ...register, before: follow },
    cell(LOOP),
    { ...cell(ENDLESS), before: interruptIt },
    cell("kept"),
  ];
  await using model = ScriptedModel.play(script);
  const ipybox = {
    command: Deno.execPath(),
    args: [...cliArguments, "mcp", "--workspace", workspace.path],
    env: {
      ...state,
      XDG_CACHE_HOME: `${home.path}/cache`,
      XDG_DATA_HOME: `${home.path}/data`,
      DENO_DIR: denoDir,
      IPYBOX_PYTHON: testPython(),
      PATH: Deno.env.get("PATH") ?? "",
      NO_COLOR: "1",
    },
  };
  {
    const place = { home: home.path, workspace: workspace.path, model: model.url, ipybox };
    await using conversation = await agent.start(program, place);
    interrupt = conversation.interrupt;
    await conversation.say("Follow your script.");
    model.check();
    await interrupting;
    if (agent.goesOn) await conversation.say("Go on.");
  }
  model.check();
  const terminal = await person;
  assertEquals(terminal?.code, 0, terminal?.output);
  await untilNoneWith(workspace.path);
  await check(agent, model, workspace.path);
}

let ownTools: ReturnType<McpHost["tools"]> | undefined;

/** The tools as a client has them that adds nothing. */
async function listTools(): ReturnType<McpHost["tools"]> {
  await using workspace = await TempFolder.create();
  const noKernel = ["--python", "/bin/false"];
  await using host = await McpHost.start({ args: ["--workspace", workspace.path, ...noKernel] });
  return await host.tools();
}

/** Checks all that the model was given. */
async function check(agent: Agent, model: ScriptedModel, workspace: string): Promise<void> {
  const { seen, offered } = model;
  const [hello, error, image, long, refused, registered, loop, , kept] = seen;
  const shows = (given: Seen | undefined, text: string, how = agent.shown) => {
    const shown = how(text);
    if (typeof shown === "string") assertEquals(given?.text, shown);
    else assertMatch(given?.text ?? "", shown);
  };

  for (const { name, description } of await (ownTools ??= listTools())) {
    const tool = offered.find((tool) => tool.name === name || tool.name.endsWith(`_${name}`));
    const known = description.split("Registered: ")[0] ?? ""; // one was registered since
    assertStringIncludes(tool?.description ?? "", known);
  }

  shows(hello, "hello\n42");
  shows(error, ERROR);

  const [picture = ""] = /[0-9a-f]{8}(?=\.png)/.exec(image?.text ?? "") ?? [];
  const named = `- [${picture}](${workspace}/images/${picture}.png)`;
  shows(image, `a picture\n\nGenerated images:\n\n${named}`, agent.shownWithImage);
  assertEquals(image?.images, [PNG.join("")]);
  assertEquals(image?.request.split(PNG.join("")).length, 2); // once

  const numbers = Array.from({ length: 3000 }, (_, i) => `${i}`).join("\n");
  const [output = ""] = /[0-9a-f]{8}(?=\.txt)/.exec(long?.text ?? "") ?? [];
  shows(
    long,
    `${
      numbers.slice(0, 2500)
    }\n\n[Output truncated: exceeded 5000 character limit, 8889 of 13889 ` +
      `characters omitted here]\n\n${numbers.slice(-2500)}\n\n` +
      `[Full output: ${workspace}/images/${output}.txt (ipybox://outputs/${output}.txt)]`,
  );
  assertEquals(await Deno.readTextFile(`${workspace}/images/${output}.txt`), numbers);

  assertNamesTerminal(agent, refused, workspace);
  shows(registered, REGISTERED);
  shows(loop, "Echo: 0 is The sum of 0 and 40 is 40.\nEcho: 1 is The sum of 1 and 40 is 41.");
  if (agent.goesOn) shows(kept, "'kept'");
}

/** Checks that a model which may not register a server hears where its user can allow that. */
function assertNamesTerminal(
  { refuses = false }: Agent,
  given: Seen | undefined,
  workspace: string,
) {
  const text = given?.text ?? "";
  // On a busy machine, a program that refuses for its user may take as long as a person does.
  if (refuses && text.endsWith("the user did not allow it")) return;
  assertStringIncludes(text, `\`ipybox approvals --workspace ${workspace}\``);
}
