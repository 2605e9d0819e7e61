/**
 * Agent programs in conversation with a scripted model, with `ipybox mcp` as their MCP server. Each has
 * a home of its own, and settings that switch off what it does of itself on the network.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { buildPythonEnvironment } from "../../src/python/environment.ts";
import { EnvironmentNotReadyError } from "../../src/base/errors.ts";
import { AgentProcess, type Launch } from "./agent_process.ts";
import { type Fetched, fetchProgram, PLATFORM } from "./agent_programs.ts";

/** What an agent is given. */
export interface Place {
  /** Its home. */
  readonly home: string;
  /** Where it works. */
  readonly workspace: string;
  /** The address of the model. */
  readonly model: string;
  /** The MCP server. */
  readonly ipybox: { readonly command: string; readonly args: string[]; readonly env: Variables };
}

type Variables = Readonly<Record<string, string>>;

/** A conversation with an agent. Disposing ends the program as its user would. */
export interface Conversation extends AsyncDisposable {
  /** Says something, and waits until the agent has answered or was interrupted. */
  say(text: string): Promise<void>;
  /** Interrupts what it does. */
  interrupt(): Promise<void>;
}

type Shown = (text: string) => RegExp | string;

/** An agent program. */
export interface Agent {
  readonly name: string;
  /** Where it is, or why it is not here. */
  readonly program: Fetched;
  /** Starts it. */
  readonly start: (program: string, place: Place) => Promise<Conversation>;
  /** What it makes of a result's text before it gives it to the model. */
  readonly shown: Shown;
  /** The same where an image follows. */
  readonly shownWithImage?: Shown;
  /** Whether it can be talked to after it was interrupted. */
  readonly goesOn: boolean;
  /** Whether it answers questions of MCP servers itself, with no. */
  readonly refuses?: boolean;
}

/** The environment of a program: a home of its own, and the programs of this machine. */
function environment({ home }: Place, more: Variables): Variables {
  return {
    PATH: Deno.env.get("PATH") ?? "/usr/bin:/bin",
    LANG: "C.UTF-8",
    HOME: home,
    XDG_CONFIG_HOME: `${home}/config`,
    XDG_CACHE_HOME: `${home}/cache`,
    XDG_STATE_HOME: `${home}/state`,
    XDG_DATA_HOME: `${home}/data`,
    ...more,
  };
}

// --- Claude Code, as the Agent SDK drives it

const claudeCode: Agent = {
  name: "Claude Code 2.1.197",
  program: await fetchProgram(`@anthropic-ai/claude-code-${PLATFORM}`, "2.1.197", "claude"),
  shown: (text) => text,
  goesOn: true,
  start: async (command, place) => {
    const { home, workspace: cwd, model, ipybox } = place;
    const servers = `${home}/servers.json`;
    await Deno.writeTextFile(servers, JSON.stringify({ mcpServers: { ipybox } }));
    const process = AgentProcess.start({
      command,
      args: [
        ...["--print", "--verbose", "--input-format=stream-json", "--output-format=stream-json"],
        ...[`--mcp-config=${servers}`, "--strict-mcp-config", "--allowedTools=mcp__ipybox"],
      ],
      cwd,
      env: environment(place, {
        ANTHROPIC_BASE_URL: model,
        ANTHROPIC_API_KEY: "none",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
        ENABLE_TOOL_SEARCH: "false",
        MCP_TIMEOUT: "60000",
      }),
    });
    return {
      say: async (text) => {
        await process.send({ type: "user", message: { role: "user", content: text } });
        for (;;) {
          const message = await process.message(({ type }) =>
            type === "result" || type === "control_request"
          );
          if (message.type === "result") return;
          // It asks its user. Without `--input-format` there is nobody, and this is what it answers.
          const response = { action: "cancel" };
          const { request_id } = message;
          const reply = { subtype: "success", request_id, response };
          await process.send({ type: "control_response", response: reply });
        }
      },
      interrupt: async () => {
        const request = { subtype: "interrupt" };
        await process.send({ type: "control_request", request_id: "1", request });
      },
      [Symbol.asyncDispose]: () => process[Symbol.asyncDispose](),
    };
  },
};

// --- Codex, as editors drive it

const codexArch = Deno.build.arch;

const codex: Agent = {
  name: "Codex 0.169.0",
  program: await fetchProgram(
    "@openai/codex",
    `0.169.0-${PLATFORM}`,
    `vendor/${codexArch}-unknown-linux-musl/bin/codex`,
  ),
  shown: (text) => new RegExp(`^Wall time: [0-9.]+ seconds\nOutput:${RegExp.escape(text)}$`),
  goesOn: true,
  refuses: true,
  start: async (command, place) => {
    const { home, workspace: cwd, model, ipybox } = place;
    await Deno.mkdir(`${home}/.codex`);
    await Deno.writeTextFile(`${home}/.codex/config.toml`, codexSettings(model, ipybox));
    const process = AgentProcess.start({
      command,
      args: ["app-server"],
      cwd,
      env: environment(place, {}),
    });
    let calls = 0;
    const call = async (method: string, params: unknown) => {
      const id = ++calls;
      await process.send({ id, method, params });
      const answer = await process.message((message) =>
        message.id === id && !("method" in message)
      );
      if ("error" in answer) throw new Error(JSON.stringify(answer.error));
      return answer.result;
    };
    await call("initialize", { clientInfo: { name: "test", title: "Test", version: "1" } });
    await process.send({ method: "initialized" });
    const { thread } = z.object({ thread: z.object({ id: z.string() }) })
      .parse(await call("thread/start", { cwd }));
    const threadId = thread.id;
    let turnId = "";
    return {
      say: async (text) => {
        const input = [{ type: "text", text }];
        const { turn } = z.object({ turn: z.object({ id: z.string() }) })
          .parse(await call("turn/start", { threadId, input }));
        turnId = turn.id;
        await process.message(({ method }) => method === "turn/completed");
      },
      interrupt: async () => {
        await process.send({ id: ++calls, method: "turn/interrupt", params: { threadId, turnId } });
      },
      [Symbol.asyncDispose]: () => process[Symbol.asyncDispose](),
    };
  },
};

function codexSettings(model: string, { command, args, env }: Place["ipybox"]): string {
  const text = JSON.stringify; // strings and lists are the same in TOML
  return `
model = "scripted"
model_provider = "scripted"
check_for_update_on_startup = false
approval_policy = "never"
sandbox_mode = "danger-full-access"
[analytics]
enabled = false
[model_providers.scripted]
name = "scripted"
base_url = ${text(`${model}/v1`)}
wire_api = "responses"
[mcp_servers.ipybox]
command = ${text(command)}
args = ${text(args)}
required = true
startup_timeout_sec = 60
[mcp_servers.ipybox.env]
${Object.entries(env).map(([name, value]) => `${name} = ${text(value)}`).join("\n")}
`;
}

// --- OpenCode: its server, which its terminal program starts, too

const openCode: Agent = {
  name: "OpenCode 1.18.33",
  program: await fetchProgram(`opencode-${PLATFORM}`, "1.18.33", "bin/opencode"),
  shown: (text) => text,
  goesOn: true,
  start: async (command, place) => {
    const { home, workspace: cwd, model, ipybox } = place;
    const config = `${home}/config/opencode`;
    // With these two, it does not install the package that plugins of its user import.
    await Deno.mkdir(`${config}/node_modules`, { recursive: true });
    const dependencies = { "@opencode-ai/plugin": "*" };
    const lock = JSON.stringify({ packages: { "": { dependencies } } });
    await Deno.writeTextFile(`${config}/package-lock.json`, lock);
    const settings = JSON.stringify(openCodeSettings(model, ipybox));
    await Deno.writeTextFile(`${config}/opencode.json`, settings);
    const process = AgentProcess.start({
      command,
      args: ["serve", "--port=0"],
      cwd,
      env: environment(place, {
        OPENCODE_DISABLE_AUTOUPDATE: "1",
        OPENCODE_DISABLE_DEFAULT_PLUGINS: "1",
        OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
        OPENCODE_DISABLE_MODELS_FETCH: "1",
      }),
    });
    const line = await process.line((line) => line.includes("listening on"));
    const url = /http:\S+/.exec(line)?.[0] ?? "";
    const client = Deno.createHttpClient({ poolMaxIdlePerHost: 0 }); // or its server waits for it
    const post = async (path: string, body: unknown) => {
      const answer = await fetch(`${url}${path}?directory=${encodeURIComponent(cwd)}`, {
        client,
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      });
      const text = await answer.text();
      if (!answer.ok) throw new Error(text);
      return JSON.parse(text);
    };
    const { id } = await post("/session", {});
    return {
      say: async (text) => {
        const of = { providerID: "scripted", modelID: "scripted" };
        await post(`/session/${id}/message`, { model: of, parts: [{ type: "text", text }] });
      },
      interrupt: async () => {
        await post(`/session/${id}/abort`, {});
      },
      [Symbol.asyncDispose]: async () => {
        await post("/instance/dispose", {}); // ends its MCP servers, as when its user leaves
        client.close();
        process.signal("SIGKILL"); // it does not end on SIGTERM after a session
        await process[Symbol.asyncDispose]();
      },
    };
  },
};

function openCodeSettings(model: string, { command, args, env }: Place["ipybox"]): unknown {
  const modalities = { input: ["text", "image"], output: ["text"] };
  const scripted = { attachment: true, tool_call: true, modalities };
  return {
    autoupdate: false,
    share: "disabled",
    model: "scripted/scripted",
    small_model: "scripted/scripted",
    permission: "allow",
    provider: {
      scripted: {
        npm: "@ai-sdk/openai-compatible", // comes with it
        options: { baseURL: `${model}/v1`, apiKey: "none" },
        models: { scripted: { ...scripted, limit: { context: 200_000, output: 10_000 } } },
      },
    },
    mcp: {
      ipybox: { type: "local", command: [command, ...args], environment: env, timeout: 60_000 },
    },
  };
}

// --- Gemini CLI, headless: it runs on Deno as well as on Node

const GEMINI = "0.61.0";

const geminiCli: Agent = {
  name: `Gemini CLI ${GEMINI}`,
  program: await fetchProgram("@google/gemini-cli", GEMINI, "bundle/gemini.js"),
  shown: (text) => `<untrusted_context>\n${text}\n</untrusted_context>`,
  shownWithImage: (text) =>
    `<untrusted_context>\n${text}\n</untrusted_context>\n` +
    "[Tool 'execute_ipython_cell' provided the following image data with mime-type: image/png]",
  goesOn: false,
  start: async (path, place) => {
    const { home, workspace: cwd, model, ipybox } = place;
    await Deno.mkdir(`${home}/.gemini`);
    await Deno.writeTextFile(
      `${home}/.gemini/settings.json`,
      JSON.stringify({
        general: { enableAutoUpdate: false, enableAutoUpdateNotification: false },
        privacy: { usageStatisticsEnabled: false },
        security: { auth: { selectedType: "gemini-api-key" }, folderTrust: { enabled: false } },
        mcpServers: { ipybox: { ...ipybox, trust: true, timeout: 60_000 } },
      }),
    );
    const launch = (text: string): Launch => ({
      command: Deno.execPath(),
      args: [
        ...["run", "-A", "--quiet", "--no-config", "--no-lock", path],
        ...["--prompt", text, "--yolo", "--model=gemini-2.5-pro"],
      ],
      cwd,
      env: environment(place, {
        DENO_DIR: ipybox.env.DENO_DIR ?? "",
        GEMINI_API_KEY: "none",
        GOOGLE_GEMINI_BASE_URL: model,
        GEMINI_CLI_NO_RELAUNCH: "true",
      }),
    });
    let process: AgentProcess | undefined;
    return {
      say: async (text) => {
        process = AgentProcess.start(launch(text));
        await process[Symbol.asyncDispose]();
      },
      interrupt: async () => {
        process?.signal("SIGINT");
        await Promise.resolve();
      },
      [Symbol.asyncDispose]: async () => {},
    };
  },
};

// --- pydantic-ai, a library

const PYDANTIC_AI = "2.62.0";

const pydanticAi: Agent = {
  name: `pydantic-ai ${PYDANTIC_AI}`,
  program: await pydanticPython(),
  shown: (text) => text,
  shownWithImage: (text) =>
    new RegExp(
      `^${RegExp.escape(`[${JSON.stringify(text)},"See file `)}[0-9a-f]+${RegExp.escape('."]')}$`,
    ),
  goesOn: true,
  start: async (python, place) => {
    const fixture = new URL("../fixtures/agents/pydantic_agent.py", import.meta.url);
    const job = { model: `${place.model}/v1`, server: place.ipybox };
    const process = AgentProcess.start({
      command: python,
      args: [fileURLToPath(fixture), JSON.stringify(job)],
      cwd: place.workspace,
      env: environment(place, {}),
    });
    return await Promise.resolve({
      say: async (text) => {
        await process.send({ say: text });
        await process.message(({ done }) => done === text);
      },
      interrupt: () => process.send({ interrupt: true }),
      [Symbol.asyncDispose]: () => process[Symbol.asyncDispose](),
    });
  },
};

/** Builds its Python environment, once for this machine. */
async function pydanticPython(): Promise<Fetched> {
  try {
    const requirements = new URL("../python/agents.txt", import.meta.url);
    const recipe = {
      requirements: await Deno.readTextFile(requirements),
      modules: { pydantic_ai: "pydantic-ai-slim" },
    };
    return { path: (await buildPythonEnvironment({ recipe })).executable };
  } catch (error) {
    if (!(error instanceof EnvironmentNotReadyError)) throw error;
    return { missing: `its packages cannot be installed: ${error.message.split("\n", 1)[0]}` };
  }
}

/** All of them. */
export const AGENTS: readonly Agent[] = [claudeCode, codex, openCode, geminiCli, pydanticAi];
