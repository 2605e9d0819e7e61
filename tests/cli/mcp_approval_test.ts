import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { readAuditLog, verifyAuditLog } from "../../src/approval/audit/reader.ts";
import { auditedQuestions } from "../support/audited_questions.ts";
import { until } from "../support/wait.ts";
import { rawServer } from "../support/mcp.ts";
import { CLIENT_ERAS, McpHost } from "../support/mcp_client.ts";
import { RAW, workspaceWithServer } from "../support/mcp_workspace.ts";
import { writeAcceptedPolicy } from "../support/policy.ts";
import { stepsOf } from "../support/steps.ts";

Deno.test("ipybox mcp refuses what needs approval where the client cannot ask", async (t) => {
  await using workspace = await workspaceWithServer();
  const rule = { effect: "allow", server: "raw", tool: "ask" };
  await writeAcceptedPolicy(workspace.path, JSON.stringify({ rules: [rule] }));
  await using host = await McpHost.start({ args: ["--workspace", workspace.path, "--no-sandbox"] });
  const step = stepsOf(t);

  await step("a tool call, and says where it could be allowed", async () => {
    const { isError, text } = await host.call("execute_ipython_cell", {
      code: `${RAW}raw.run_sync("count")`,
    });
    assertEquals(isError, false); // the code raised it
    assertMatch(
      text,
      /ApprovalUnavailableError: .*no approval page is open.*http:\/\/127\.0\.0\.1:/,
    );
  });

  await step("a registration, and says what the user can run", async () => {
    const { isError, text } = await host.call("register_mcp_server", {
      server_name: "x",
      server_params: { command: "touch", args: [`${workspace.path}/a b`] },
    });
    assertEquals(isError, true);
    assertStringIncludes(text, `ipybox register x -- touch '${workspace.path}/a b'`);

    const withKey = await host.call("register_mcp_server", {
      server_name: "x",
      server_params: { command: "touch", env: ["KEY=${KEY}"] },
    });
    assertStringIncludes(withKey.text, "ipybox register x --env 'KEY=${KEY}' -- touch");
    const remote = await host.call("register_mcp_server", {
      server_name: "x",
      server_params: { url: "https://example.org/mcp", headers: ["Authorization: Bearer ${KEY}"] },
    });
    const header = "--header 'Authorization: Bearer ${KEY}'";
    assertStringIncludes(remote.text, `ipybox register x --url https://example.org/mcp ${header}`);
  });

  await step("an installation from a repository", async () => {
    const { isError, text } = await host.call("install_package", {
      package_name: "git+https://example.org/owner/name",
    });
    assertEquals(isError, true);
    assertStringIncludes(text, "the user's approval is needed");
  });

  await step("a question of an MCP server", async () => {
    const { text } = await host.call("execute_ipython_cell", { code: ASK_FORM });
    assertMatch(text, /^\[{"action":"decline"}\]\n\nA question from MCP server "raw" was declined/);
  });
});

Deno.test("ipybox mcp goes on where a client of the older era fails to ask", async () => {
  await using workspace = await workspaceWithServer();
  await using host = await McpHost.start({
    kind: "2.x legacy",
    args: ["--workspace", workspace.path, "--no-sandbox"],
    answer: () => {
      throw new Error("there is no window to ask in");
    },
  });
  const { text } = await host.call("execute_ipython_cell", {
    code: `${RAW}raw.run_sync("count")`,
  });
  assertMatch(text, /ApprovalUnavailableError: .*no approval page is open.*http:\/\/127\.0\.0\.1:/);
  assertEquals(await host.execute("print(6 * 7)"), "42"); // does not wait for the first
  const { isError } = await host.call("register_mcp_server", {
    server_name: "x",
    server_params: { command: "touch", args: [`${workspace.path}/x`] },
  });
  assertEquals(isError, true);
});

Deno.test("ipybox mcp --approve deny asks nobody, and refuses", async () => {
  await using workspace = await workspaceWithServer();
  await using host = await McpHost.start({
    args: ["--workspace", workspace.path, "--no-sandbox", "--approve", "deny"],
    answer: () => {
      throw new Error("nobody is to be asked");
    },
  });
  await assertRefuses(host, true);
  await assertNamesCommands(host);
});

/** Whether a call, a read of a resource and a registration are refused, or none of them. */
async function assertRefuses(host: McpHost, refuses: boolean): Promise<void> {
  const code = `${RAW}print(raw.run_sync("count").text)`;
  const { text } = await host.call("execute_ipython_cell", { code });
  assertEquals(text.includes("ApprovalRejectedError"), refuses, text);
  const read = `${RAW}raw.resources.read("x://y")`; // it has none, which its own error says
  const { content } = await host.call("execute_ipython_cell", { code: read });
  assertEquals(JSON.stringify(content).includes("ApprovalRejectedError"), refuses);
  const params = { server_name: "again", server_params: { ...rawServer() } };
  assertEquals((await host.call("register_mcp_server", params)).isError, refuses);
}

/** What the user is asked to run registers all that was asked for, or is a file with all of it. */
async function assertNamesCommands(host: McpHost): Promise<void> {
  const command = { command: "npx", args: ["-y", "srv", "--sandbox"] };
  const url = { url: "https://x.example/mcp" };
  const commands: readonly (readonly [Record<string, unknown>, string])[] = [
    [{ ...command, env: { A: "b c" } }, "x --env 'A=b c' -- npx -y srv --sandbox"],
    [{ ...url, headers: { K: "v" } }, `x --url ${url.url} --header 'K: v'`],
  ];
  const files = [
    { ...command, sandbox: true },
    { ...command, env: { A: " starts with a blank" } },
    { ...url, oauth: false },
  ];
  const said = async (server_params: unknown) => {
    const { text } = await host.call("register_mcp_server", { server_name: "x", server_params });
    return text.slice(text.indexOf("Ask the user")).split("\n", 1)[0];
  };
  for (const [params, words] of commands) {
    assertEquals(await said(params), `Ask the user to run: ipybox register ${words}`);
  }
  for (const params of files) {
    const file = JSON.stringify({ mcpServers: { x: params } });
    const text = await said(params) ?? "";
    assertStringIncludes(text, "`ipybox register --from FILE`");
    assertEquals(JSON.parse(text.slice(text.indexOf("{"))), JSON.parse(file));
  }
}

Deno.test("ipybox mcp --approve-shell ask asks for shell commands, too, and for tools as before", async () => {
  await using workspace = await workspaceWithServer();
  const questions: string[] = [];
  await using host = await McpHost.start({
    kind: "2.x 2026-07-28",
    args: ["--workspace", workspace.path, "--no-sandbox", "--approve-shell", "ask"],
    answer: (question) => {
      questions.push(question);
      if (question.includes("raw.count")) {
        return "allow this tool with any arguments in this session";
      }
      return question.includes("rm") ? "deny" : "allow once";
    },
  });

  assertEquals(await host.execute("!echo yes"), "yes");
  const { text } = await host.call("execute_ipython_cell", { code: "!rm -r nothing" });
  assertMatch(text, /\[1 of 1 calls denied or failed: \S+ \(approval_rejected\)\]$/);
  assertEquals(questions.length, 2);
  assertMatch(questions[0] ?? "", /^Allow this shell command\?\n\n[^]*\n {4}\| {3}cmd=.echo yes/);

  const code = `${RAW}print(raw.run_sync("count").text)`;
  assertEquals(await host.execute(code), "1");
  assertEquals(await host.execute(code), "2");
  assertEquals(questions.length, 3);
});

for (const kind of CLIENT_ERAS) {
  Deno.test(`ipybox mcp --approve allow asks a client of the kind ${kind} only what MCP servers ask`, async () => {
    await using workspace = await workspaceWithServer();
    const seen: Readonly<Record<string, unknown>>[] = [];
    await using host = await McpHost.start({
      kind,
      args: ["--workspace", workspace.path, "--no-sandbox", "--approve", "allow"],
      answer: (_, params) => {
        seen.push(params);
        return seen.length === 1 ? { name: "Ada", size: "large" } : null;
      },
    });

    await assertRefuses(host, false);
    assertEquals(seen, []);
    const first = await host.execute(ASK_FORM);
    const second = await host.execute(ASK_FORM);

    assertEquals(JSON.parse(first), [{
      action: "accept",
      content: { name: "Ada", size: "large" },
    }]);
    // A refusal within 0.4 s, which nobody has read, is left to the page: a note may follow.
    assertMatch(second, /^\[{"action":"decline"}\]/);
    await until(
      "the first question is noted",
      async () =>
        (await auditedQuestions(workspace.path))[0] ===
          "raw.elicitation/create elicitation elicitation accept",
    );
    const message = String(seen[0]?.message);
    assertStringIncludes(message, 'The MCP server "raw" asks:\n\n    | Who is it?');
    assertStringIncludes(message, "\\u202e"); // nothing turns the direction of what is read
    assertStringIncludes(JSON.stringify(seen[0]?.requestedSchema), '"enum":["small","large"]');
  });
}

for (const kind of CLIENT_ERAS) {
  Deno.test(`ipybox mcp notes changes that a client of the kind ${kind} asks for`, async () => {
    await using workspace = await workspaceWithServer();
    let registrations = 0;
    const host = await McpHost.start({
      kind,
      args: ["--workspace", workspace.path, "--no-sandbox"],
      answer: (question) => {
        if (question.includes("Register")) registrations++;
        return registrations === 1 && !question.includes("Install") ? "allow" : "deny";
      },
    });
    const server = { ...rawServer(), env: { KEY: "s3cr3t" } };

    await host.call("register_mcp_server", { server_name: "again", server_params: server });
    await host.call("register_mcp_server", { server_name: "no", server_params: server });
    await host.call("install_package", { package_name: "git+https://example.org/o/n" });
    await host.call("unregister_mcp_server", { server_name: "again" });
    await host[Symbol.asyncDispose](); // which ends it, so that all is written

    const lines = await Array.fromAsync(readAuditLog(workspace.path));
    const requests = lines.filter(({ id }) => id !== undefined);
    assertEquals(
      requests.map(({ kind, tool, decision, by }) => [kind, tool, decision, by].join(" ")),
      [
        "change register_mcp_server allow approver",
        "change register_mcp_server deny approver",
        "change install_package deny approver",
        "change unregister_mcp_server deny approver",
      ],
    );
    const text = JSON.stringify(lines);
    assertStringIncludes(text, "raw_server.ts"); // how it is started
    assertEquals(text.includes("s3cr3t"), false);
    assertEquals(lines.filter(({ outcome }) => outcome !== undefined).length, 1);
    assertEquals((await verifyAuditLog(workspace.path)).ok, true);
  });
}

/** Calls a tool that asks its client for a form, and prints the answer. */
const ASK_FORM = `${RAW}
params = {
    "message": "Who is it?\\u202e",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "size": {"type": "string", "enum": ["small", "large"]},
        },
        "required": ["name"],
    },
}
print(raw.run_sync("ask", {"method": "elicitation/create", "params": params}).text)`;
