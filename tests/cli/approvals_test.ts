import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { ApprovalClient } from "../../src/approval/client.ts";
import { auditedQuestions } from "../support/audited_questions.ts";
import { inThisProcess } from "../support/command_io.ts";
import { exists } from "../support/files.ts";
import { until } from "../support/wait.ts";
import { rawServer } from "../support/mcp.ts";
import { eachEra, McpHost } from "../support/mcp_client.ts";
import { RAW, workspaceWithServer } from "../support/mcp_workspace.ts";
import { stepsOf } from "../support/steps.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { ipyboxAtTerminal, type Typing } from "../support/terminal.ts";

const COUNT = `${RAW}raw.run_sync("count").text`;
const CELL = "execute_ipython_cell";
const ASK = `${RAW}
schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
params = {"message": "Which one?", "requestedSchema": schema}
print(raw.run_sync("ask", {"method": "elicitation/create", "params": params}).text)`;

Deno.test("ipybox approvals asks at a terminal what a client cannot ask", async () => {
  await using workspace = await workspaceWithServer();
  await using state = await TempFolder.create();
  const env = { XDG_STATE_HOME: state.path };
  const host = await McpHost.start({
    args: ["--workspace", workspace.path, "--no-sandbox"],
    env,
  });
  const command = `ipybox approvals --workspace ${workspace.path}`;
  const refused = await host.call(CELL, { code: COUNT });
  assertStringIncludes(refused.text, `run \`${command}\` in a terminal`);

  const attached = `${workspace.path}/attached`;
  const terminal = ipyboxAtTerminal(["approvals", "--workspace", workspace.path], [
    [`Deciding for ${workspace.path}`, "", attached],
    ["start_mcp_server", ""],
    ["Allow? ", "y\n"],
    ["raw.count", ""],
    ["Allow? ", "y\n"],
    ["register_mcp_server", ""],
    ["Allow? ", "y\n"],
    ["raw.count", ""],
    ["Allow? ", "n not now\n"],
    ["Allow? ", "y\n"],
    ["The MCP server raw asks", ""],
    ["  | Which one?", ""],
    ["Answer 1 fields?", "y\n"],
    ["Answer to raw", "Ada\n"],
    [`${workspace.path} has ended`, "\x03"],
  ], { env, columns: 300 });
  await until("the terminal decides", () => exists(attached));
  assertEquals((await host.call(CELL, { code: COUNT })).text, "'1'");
  const params = { server_name: "mine", server_params: { ...rawServer() } };
  const registered = await host.call("register_mcp_server", params);
  assertEquals(registered.isError, false, registered.text);
  const denied = await host.call(CELL, { code: COUNT });
  assertStringIncludes(denied.text, "not now");
  assertEquals(
    await host.execute(ASK),
    '[{"action":"accept","content":{"name":"Ada"}}]',
  );
  await host[Symbol.asyncDispose]();
  const { code, output } = await terminal;

  assertEquals(await auditedQuestions(workspace.path, state.path), [
    "raw.elicitation/create elicitation application accept",
  ]);
  assertEquals(code, 0, output);
  assertStringIncludes(output, "raw.count()");
  assertStringIncludes(output, "register_mcp_server");
});

Deno.test("ipybox approvals insists on a terminal", async () => {
  for (const args of [["approvals"], ["approvals", "--link"]]) {
    const { code, stdout, stderr } = await inThisProcess(args);
    assertEquals([code, stdout], [2, ""]);
    assertStringIncludes(stderr, "a person must decide, not a program");
  }
});

Deno.test("ipybox approvals finds a session that runs, and forgets those that are gone", async (t) => {
  await using workspace = await workspaceWithServer();
  await using state = await TempFolder.create();
  const env = { XDG_STATE_HOME: state.path };
  const folder = `${state.path}/ipybox/sessions`;
  await Deno.mkdir(folder, { recursive: true });
  const stale = { workspace: "/gone", label: "", url: "http://127.0.0.1:1/", token: "x" };
  await Deno.writeTextFile(`${folder}/stale.json`, JSON.stringify(stale));
  await Deno.writeTextFile(`${folder}/damaged.json`, "{");
  const step = stepsOf(t);
  const at = (directory: string, more: readonly string[], script: readonly Typing[] = []) =>
    ipyboxAtTerminal(["approvals", "--workspace", directory, ...more], script, {
      env,
      columns: 300,
    });
  {
    await using host = await McpHost.start({ args: ["--workspace", workspace.path], env });
    const seen = await host.execute(`
import os
try: print(os.listdir(${JSON.stringify(folder)}))
except OSError as error: print(type(error).__name__)`);
    let name = "";

    await step("--link prints a link", async () => {
      const { code, output } = await at(workspace.path, ["--link"]);
      assertEquals(code, 0, output);
      const link = /http:\/\/127\.0\.0\.1:\d+\/page\/open\?code=[\w-]+/.exec(output)?.[0] ?? "";
      const page = await fetch(link, { redirect: "manual" });
      await page.body?.cancel();
      assert(page.status < 400, `${page.status}`);
      const [record, ...others] = await Array.fromAsync(Deno.readDir(folder));
      assertEquals(others, []); // the stale and the damaged one were forgotten
      name = record?.name ?? "";
      const { mode } = await Deno.stat(`${folder}/${name}`);
      assertEquals((mode ?? 0) & 0o777, 0o600);
      assertEquals((await at(state.path, ["--link"])).code, 1); // no session works there
    });

    await step("executed code cannot see what opens its session", () => {
      assert(name !== "" && !seen.includes(name), seen);
      return Promise.resolve();
    });

    await step("it takes over from another approver when that ends", async () => {
      const { url, token } = JSON.parse(await Deno.readTextFile(`${folder}/${name}`));
      const first = await ApprovalClient.connect({
        url,
        token,
        onRequest: (request) => void request.accept(),
      });
      const waits = `${workspace.path}/waits`;
      const second = at(workspace.path, [], [
        ["such as another `ipybox approvals`. This one takes over when that ends", "", waits],
        [`Deciding for ${workspace.path}`, "\x03"],
      ]);
      await until("the second one waits", () => exists(waits));
      await first[Symbol.asyncDispose]();
      const { code, output } = await second;
      assertEquals(code, 0, output);
    });
  }
  assertEquals(await Array.fromAsync(Deno.readDir(folder)), []);
});

Deno.test("Whoever listens at the port of a session that was killed is told nothing", async () => {
  await using state = await TempFolder.create();
  const told: string[] = [];
  await using impostor = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    (request) => {
      told.push(request.url);
      return Response.json({ status: "ok", url: "http://evil.example/page/open?code=LOGIN" });
    },
  );
  const folder = `${state.path}/ipybox/sessions`;
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  const url = `http://127.0.0.1:${impostor.addr.port}`;
  const record = { workspace: state.path, label: "", url, token: "secret" };
  await Deno.writeTextFile(`${folder}/left.json`, JSON.stringify(record), { mode: 0o600 });
  const env = { XDG_STATE_HOME: state.path };
  const { code, output } = await ipyboxAtTerminal(["approvals", "--link"], [], { env });
  assertEquals([code, told], [1, []], output);
  assertStringIncludes(output, "No `ipybox mcp` session is running here");
});

const UNASKED = /answered without asking anybody.*ipybox approvals --workspace/;

Deno.test("A client of each kind that answers for nobody has asked nobody", () =>
  eachEra(async (kind) => {
    await using workspace = await workspaceWithServer();
    const answers: (null | undefined | "slow")[] = [];
    const defaults: unknown[] = [];
    await using host = await McpHost.start({
      kind,
      args: ["--workspace", workspace.path, "--no-sandbox"],
      answer: async (_, { requestedSchema }) => {
        defaults.push(requestedSchema);
        const answer = answers.shift();
        if (answer !== "slow") return answer;
        await new Promise((resolve) => setTimeout(resolve, 1000)); // as a person reads
        return null;
      },
    });
    const params = { server_name: "mine", server_params: { ...rawServer() } };

    for (const answer of [undefined, null]) { // a headless Claude Code cancels, Codex declines
      const called = async (tool: string, args: Record<string, unknown>) => {
        let result;
        for (let tries = 0; tries < 10; tries++) { // a busy machine may take as long as a person
          answers.push(answer);
          result = await host.call(tool, args);
          if (UNASKED.test(result.text)) return result;
        }
        throw new Error(`It seems to come from a person: ${result?.text}`);
      };
      await called(CELL, { code: COUNT });
      const registered = await called("register_mcp_server", params);
      assertEquals(registered.isError, true);
      assertStringIncludes(registered.text, "ipybox register mine --");
    }
    answers.push("slow", "slow");
    assertStringIncludes(
      (await host.call(CELL, { code: COUNT })).text,
      "was refused: the user gave no reason",
    );
    const { text } = await host.call("register_mcp_server", params);
    assertStringIncludes(text, "the user did not allow it");
    assertStringIncludes(JSON.stringify(defaults.at(-2)), '"default":"allow once"');
    assertStringIncludes(JSON.stringify(defaults.at(-1)), '"default":"allow"');
  }));
