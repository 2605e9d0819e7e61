/**
 * Attacks between the clients of one HTTP server: another owner's session, whose handle is known, and
 * from inside another session's kernel.
 */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { makeSessionFolders } from "../../src/mcp_server/http/session_folders.ts";
import { z } from "zod";
import { exists, filesBelow } from "../support/files.ts";
import { INITIALIZE } from "../support/initialize.ts";
import { HttpMcp } from "../support/http_mcp.ts";
import { McpHost } from "../support/mcp_client.ts";
import { RAW, workspaceWithServer } from "../support/mcp_workspace.ts";
import { rawServer } from "../support/mcp.ts";
import { stepsOf } from "../support/steps.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { until } from "../support/wait.ts";

const CELL = "execute_ipython_cell";
const ALICE = "alice-alice-alice-alice";
const BOB = "bob-bob-bob-bob-bob-bob";

Deno.test("A24: one owner reaches nothing of another owner's session", async (t) => {
  const step = stepsOf(t);
  await using siege = await Siege.begin();
  const { victim, bob, url } = siege;
  const nobody = crypto.randomUUID();
  const own = await bob.openSession();

  await step("handles cannot be guessed", () => {
    const ids = new Set([victim.modern, victim.legacy, own]);
    assertEquals(ids.size, 3);
    for (const id of ids) assertMatch(id, /^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-/);
    return Promise.resolve();
  });

  await step("requests in the older era look as if it were not there", async () => {
    const call = { name: CELL, arguments: { code: "secret" } };
    for (
      const [method, body] of [
        ["POST", { jsonrpc: "2.0", id: 1, method: "tools/call", params: call }],
        ["POST", { jsonrpc: "2.0", id: 0, result: { action: "accept", content: ALLOW } }],
        ["GET", undefined],
        ["DELETE", undefined],
      ] as const
    ) {
      const [real, made] = await Promise.all(
        [victim.legacy, nobody].map((id) => send(url, BOB, { method, session: id, body })),
      );
      assertEquals(real, made, method);
      assertEquals(real?.status, 404);
    }
  });

  await step("calls in the newer era look so, too", async () => {
    for (const tool of [CELL, "reset", "search_tools", "close_session"]) {
      const ask = async (session: string) => {
        const args = { code: "secret", query: "", session };
        const { isError, text } = await bob.call(tool, args);
        return { isError, text: text.replaceAll(session, "ID") };
      };
      const real = await ask(victim.modern);
      assertEquals(real, await ask(nobody));
      assertEquals(real.isError, true);
      assertMatch(real.text, /There is no session "ID"/);
    }
  });

  await step("files cannot be read or replaced, by no way to write the path", async () => {
    for (const id of [victim.modern, victim.legacy]) {
      for (
        const path of [
          `/sessions/${id}/files/secret.txt`,
          `/sessions/${own}/files/../../${id}/files/secret.txt`,
          `/sessions/${own}/files/..%2F${id}%2Fsecret.txt`,
          `/sessions/${own}/files/%2e%2e/${id}/secret.txt`,
          `/sessions/${own}%2F..%2F${id}/files/secret.txt`,
          `/sessions/${own}/files//${siege.folder(id)}/secret.txt`,
        ]
      ) {
        for (const method of ["GET", "PUT"] as const) {
          const { status, text } = await rawRequest(url, method, path);
          assert(
            status === 403 || status === 404 || status === 400,
            `${method} ${path}: ${status}`,
          );
          assert(!text.includes("of alice"), path);
        }
      }
      assertEquals(await Deno.readTextFile(`${siege.folder(id)}/secret.txt`), "of alice");
    }
  });

  await step("what cells have left is no resource of others", async () => {
    const mine = (await siege.alice.resources()).map(({ uri }) => String(uri));
    const output = mine.find((uri) => uri.startsWith("ipybox://outputs/")) ?? "";
    assertMatch(await siege.alice.read(output), /^of alice/);
    const theirs = await bob.resources();
    assertEquals(theirs.filter(({ uri }) => mine.includes(String(uri))), []);
    for (const uri of [output, "mcptools://private/schema.json"]) {
      await assertRejects(() => bob.read(uri), Error, "not found");
    }
  });

  await step("nothing tells when something happens in it", async () => {
    const before = siege.heard.count;
    const params = { server_name: "another", server_params: { ...rawServer() } };
    const hers = await siege.alice.call("register_mcp_server", params);
    assertEquals(hers.isError, false, hers.text);
    await bob.call("search_tools", { query: "", session: own });
    assertEquals(siege.heard.count, before);

    const his = await bob.call("register_mcp_server", { ...params, session: own });
    assertEquals(his.isError, false, his.text);
    await until(() => siege.heard.count > before);
  });

  await step("and it is still there", async () => {
    assertEquals(await siege.alice.execute("secret"), "'of alice'");
    const { text } = await siege.aliceModern.call(CELL, { code: "secret", session: victim.modern });
    assertEquals(text, "'of alice'");
  });

  await step("an approval that waits counts for the client only that was asked", async () => {
    const asked = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<string>();
    await using alice = await McpHost.join({ url, token: ALICE }, {
      kind: "2.x 2026-07-28",
      answer: () => {
        asked.resolve();
        return answer.promise;
      },
    });
    const body = (requestState?: string, inputResponses?: unknown) => ({
      jsonrpc: "2.0",
      id: 1,
      method: "tools/call",
      params: {
        name: "register_mcp_server",
        arguments: { server_name: "more", server_params: { ...rawServer() } },
        _meta: {
          "io.modelcontextprotocol/protocolVersion": "2026-07-28",
          "io.modelcontextprotocol/clientCapabilities": { elicitation: { form: {} } },
          "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
        },
        ...(requestState === undefined ? {} : { requestState, inputResponses }),
      },
    });
    const modern = async (token: string, message: unknown) => {
      const { text } = await send(url, token, { method: "POST", body: message }, {
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "register_mcp_server",
      });
      return z.looseObject({
        error: z.unknown().optional(),
        result: z.looseObject({ requestState: z.string().optional() }).optional(),
      }).parse(JSON.parse(/^data: (.+)$/m.exec(text)?.[1] ?? text));
    };
    const { result } = await modern(ALICE, body());
    const state = result?.requestState;
    assert(state !== undefined);

    const stolen = await modern(
      BOB,
      body(state, { confirm: { action: "accept", content: ALLOW } }),
    );

    assertEquals(stolen.result, undefined, JSON.stringify(stolen));
    const servers = await bob.call("search_tools", { query: "", session: own });
    assert(!servers.text.includes("more"));
    const running = alice.call("register_mcp_server", {
      server_name: "more",
      server_params: { ...rawServer() },
    });
    await asked.promise;
    const ids = await Promise.all([0, 1, 2].map((id) =>
      send(url, BOB, {
        method: "POST",
        session: victim.legacy,
        body: { jsonrpc: "2.0", id, result: { action: "accept", content: ALLOW } },
      })
    ));
    assertEquals(ids.map(({ status }) => status), [404, 404, 404]);
    answer.resolve("deny");
    assertMatch((await running).text, /the user did not allow it/);
  });

  await step("code reaches nothing of it, of the server or its tokens", async () => {
    const folder = siege.folder(victim.legacy);
    const code = `
import glob, http.client, importlib, json, os, socket, subprocess, sys
from ipybox_runtime import ToolRunner
results = {}
def attempt(name, action):
    try:
        results[name] = repr(action())
    except BaseException as error:
        results[name] = f"{type(error).__name__}"
def connect():
    connection = http.client.HTTPConnection("${url.hostname}", ${url.port}, timeout=5)
    connection.request("GET", "/mcp")
    return connection.getresponse().status
attempt("file", lambda: open("${folder}/secret.txt").read())
attempt("relative", lambda: open("../${victim.legacy}/secret.txt").read())
attempt("link", lambda: (os.symlink("${folder}/secret.txt", "leak"), open("leak").read()))
attempt("hard link", lambda: os.link("${folder}/secret.txt", "leak2"))
attempt("folder link", lambda: (os.symlink("${folder}", "dir"), os.listdir("dir")))
attempt("list", lambda: os.listdir("${folder}"))
attempt("write", lambda: open("${folder}/planted", "w").write("x"))
attempt("generated", lambda: os.listdir("${folder}/mcptools"))
attempt("registry", lambda: open("${folder}/.ipybox/mcp.json").read())
attempt("main registry", lambda: open("${siege.workspace}/.ipybox/mcp.json").read())
attempt("tokens", lambda: open("${siege.tokens}").read())
attempt("shell", lambda: subprocess.run(["cat", "${folder}/secret.txt"], capture_output=True, check=True))
attempt("import", lambda: importlib.import_module("mcptools.private"))
attempt("call", lambda: ToolRunner("private").run_sync("count"))
attempt("connect", connect)
attempt("gone memory", lambda: secret)
results["sessions"] = repr(sorted(os.listdir("..")))
found = []
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try:
        if b"alice-alice" in open(path, "rb").read(): found.append(path)
    except OSError:
        pass
for path in glob.glob("/proc/[0-9]*/root") + glob.glob("/proc/[0-9]*/cwd"):
    attempt(path, lambda: open(path + "/${folder.slice(1)}/secret.txt").read())
results["in processes"] = repr(found)
print("RESULTS", json.dumps(results))`;

    const { text } = await bob.call(CELL, { code, session: own });

    const said = z.record(z.string(), z.string())
      .parse(JSON.parse(/^RESULTS (.*)$/m.exec(text)?.[1] ?? ""));
    const { sessions, call, connect, "in processes": processes, ...files } = said;
    assertEquals(sessions?.match(/[\da-f-]{36}/g)?.length, 1, sessions);
    assert(!sessions?.includes(victim.legacy));
    assertEquals(processes, "[]");
    assertMatch(call ?? "", /Error$/);
    assertMatch(connect ?? "", /^(ConnectionRefusedError|OSError|PermissionError)$/);
    for (const [name, outcome] of Object.entries(files)) assertMatch(outcome, DENIED, name);
    assertEquals(await Deno.readTextFile(`${folder}/secret.txt`), "of alice");
    assertEquals(await exists(`${folder}/planted`), false);
    assertEquals(await siege.calls(), 0); // of alice's server
  });

  await step("what she has registered stays for her session, and is in no file", async () => {
    await siege.alice.call("reset");
    await bob.call("reset", { session: own });
    const query = { query: "count" };
    assertMatch((await siege.alice.call("search_tools", query)).text, /private/);
    const { text } = await bob.call("search_tools", { ...query, session: own });
    assertMatch(text, /another/); // his own
    assert(!text.includes("private"), text);
    const ownOther = { ...query, session: victim.modern };
    const hers = await siege.aliceModern.call("search_tools", ownOther);
    assertMatch(hers.text, /No servers are registered/); // in another session of hers
    const files = [...(await filesBelow(siege.workspace)).keys()];
    assertEquals(files.filter((path) => path.endsWith("mcp.json")), []);
  });
});

Deno.test("A client that allows itself everything starts nothing outside the sandbox", async (t) => {
  const step = stepsOf(t);
  await using workspace = await workspaceWithServer();
  await using outside = await TempFolder.create();
  await using server = await HttpMcp.start(["--workspace", workspace.path]);
  const asked: string[] = [];
  const answer = (question: string) => {
    asked.push(question);
    return question.startsWith("Allow this tool call?") ? "allow once" : "allow";
  };
  const show = async (tenant: McpHost) => {
    asked.length = 0;
    const offered = new Map((await tenant.tools()).map((tool) => [tool.name, tool]));
    const attempt = async (tool: string, args: Record<string, unknown>): Promise<string> => {
      const ended = await tenant.call(tool, args).catch((error: Error) => error);
      assert(ended instanceof Error || ended.isError, `${tool} succeeded`);
      return ended instanceof Error ? ended.message : ended.text;
    };

    const proof = `${outside.path}/ran`;
    const params = { command: "sh", args: ["-c", `id > ${proof}`] };
    for (
      const [tool, args] of [
        ["register_mcp_server", { server_name: "x", server_params: params }],
        ["register_mcp_server", { server_name: "raw", server_params: params }],
        ["unregister_mcp_server", { server_name: "raw" }],
      ] as const
    ) {
      assertMatch(await attempt(tool, args), /not found/i);
      assert(!offered.has(tool), tool);
    }
    const git = { package_name: "git+https://example.org/owner/name" };
    assertMatch(await attempt("install_package", git), /not offered by this server/);
    assert(!offered.get("install_package")?.description.includes("git+https"));
    assert(!/register_mcp_server/.test(tenant.instructions), tenant.instructions);

    assertEquals(asked, []);
    assertEquals(await exists(proof), false);
    // What the operator registered is there, and asked about.
    assertMatch(await tenant.execute(`${RAW}raw.run_sync("count").text`), /1/);
    assertEquals(asked.length, 1);
  };
  await step("of the newer era", async () => {
    const kind = "2.x 2026-07-28";
    await using tenant = await McpHost.join(server.address, { kind, answer });
    await show(tenant);
  });

  await using tenant = await McpHost.join(server.address, { kind: "2.x legacy", answer });
  await step("of the older era", () => show(tenant));

  await step("and what a server writes to a session's registry is never started", async () => {
    const folder = /'(.*)'/.exec(await tenant.execute("import os; os.getcwd()"))?.[1] ?? "";
    assertMatch(folder, /\/sessions\//);
    // As a server does that may write to ${workspaceFolder}, and is called by the tenant's code.
    const proof = `${outside.path}/ran`;
    const evil = { command: "sh", args: ["-c", `id > ${proof}; cat`] };
    const registry = JSON.stringify({ mcpServers: { evil, raw: evil } });
    await Deno.writeTextFile(`${folder}/.ipybox/mcp.json`, registry);

    await tenant.call("reset");
    const said = await tenant.execute(`
from ipybox_runtime import ToolRunner
for name in ("evil", "raw"):
    try:
        print(name, ToolRunner(name).run_sync("count").text)
    except Exception as error:
        print(name, error)`);

    assertEquals(await exists(proof), false);
    assertMatch(said, /^evil .*No MCP server "evil" is registered[^]*^raw 1$/m);
    assertEquals(asked.filter((question) => question.includes("start_mcp_server")), []);
  });
});

Deno.test("One token cannot hold the sessions of another", async () => {
  await using workspace = await TempFolder.create();
  await using outside = await TempFolder.create();
  const tokens = `${outside.path}/tokens`;
  await Deno.writeTextFile(tokens, `${ALICE}\n${BOB}\n${BOB}\n`);
  const args = ["--workspace", workspace.path, "--token-file", tokens, "--max-sessions", "5"];
  await using server = await HttpMcp.start(args);
  const { url } = server.address;
  const open = async (token: string) => {
    return await send(url, token, { method: "POST", body: INITIALIZE });
  };

  const greedy: Answer[] = [];
  for (let round = 0; round < 2; round++) {
    greedy.push(...await Promise.all(Array.from({ length: 100 }, () => open(ALICE))));
  }

  const statuses = greedy.map(({ status }) => status).sort();
  assertEquals(statuses, [200, 200, ...Array(198).fill(503)]);
  const refused = greedy.find(({ status }) => status === 503);
  assertMatch(refused?.text ?? "", /Your token already has its share of the sessions: 2 of 5/);
  for (const status of [200, 200, 503]) assertEquals((await open(BOB)).status, status);
  // One that ends counts until its kernel has ended.
  const mine = greedy.find(({ status }) => status === 200)?.session;
  assertEquals((await send(url, ALICE, { method: "DELETE", session: mine ?? "" })).status, 200);
  assertEquals((await open(ALICE)).status, 200);
  assertEquals((await open(ALICE)).status, 503);
});

const ALLOW = { decision: "allow" } as const;

/** All that may come of reaching for what is not there, or not to be reached. */
const DENIED =
  /^(PermissionError|FileNotFoundError|OSError|NotADirectoryError|CalledProcessError|ModuleNotFoundError|NameError|ProcessLookupError)$/;

/** An HTTP server with a victim, whose handles the attacker knows. */
class Siege implements AsyncDisposable {
  readonly #parts: AsyncDisposableStack;
  readonly #journal: string;

  private constructor(
    parts: AsyncDisposableStack,
    journal: string,
    readonly url: URL,
    readonly workspace: string,
    /** The folder of its sessions. */
    readonly folders: string,
    /** The file with the tokens. */
    readonly tokens: string,
    /** In a session of the older era. */
    readonly alice: McpHost,
    /** In one of the newer era. */
    readonly aliceModern: McpHost,
    readonly bob: McpHost,
    /** What bob is told of resources. */
    readonly heard: { count: number },
    readonly victim: { readonly legacy: string; readonly modern: string },
  ) {
    this.#parts = parts;
    this.#journal = journal;
  }

  static async begin(): Promise<Siege> {
    await using parts = new AsyncDisposableStack();
    const workspace = parts.use(await TempFolder.create()).path;
    const outside = parts.use(await TempFolder.create()).path;
    const [tokens, journal] = [`${outside}/tokens`, `${outside}/journal`];
    await Deno.writeTextFile(tokens, `${ALICE}\n${BOB}\n`);
    const args = ["--workspace", workspace, "--token-file", tokens, "--max-sessions", "20"];
    const { address: { url } } = parts.use(
      await HttpMcp.start([...args, "--allow-registrations"]),
    );
    const answer = () => "allow";
    const alice = parts.use(await McpHost.join({ url, token: ALICE }, { answer }));
    const kind = "2.x 2026-07-28";
    const aliceModern = parts.use(await McpHost.join({ url, token: ALICE }, { kind }));
    const heard = { count: 0 };
    const onResourcesChanged = () => void heard.count++;
    const bob = parts.use(
      await McpHost.join({ url, token: BOB }, { kind, answer, onResourcesChanged }),
    );

    const registered = await alice.call("register_mcp_server", {
      server_name: "private",
      server_params: { ...rawServer("normal", journal) },
    });
    assertEquals(registered.isError, false, registered.text);
    const whoami = `${SECRET}print("of alice" * 2000)\nimport os; os.path.basename(os.getcwd())`;
    const legacy = /'([\da-f-]{36})'/.exec(await alice.execute(whoami))?.[1] ?? "";
    const modern = await aliceModern.openSession();
    await aliceModern.call(CELL, { code: SECRET, session: modern });
    const victim = { legacy, modern };
    return new Siege(
      parts.move(),
      journal,
      url,
      workspace,
      await makeSessionFolders(workspace),
      tokens,
      alice,
      aliceModern,
      bob,
      heard,
      victim,
    );
  }

  /** The folder of a session. */
  folder(session: string): string {
    return `${this.folders}/${session}`;
  }

  /** How often alice's server was called. */
  async calls(): Promise<number> {
    const text = await Deno.readTextFile(this.#journal).catch(() => "");
    return text.split("\n").filter((line) => line.includes("tools/call")).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts.disposeAsync();
  }
}

const SECRET = `
secret = "of alice"
with open("secret.txt", "w") as file:
    file.write(secret)
`;

interface Answer {
  readonly status: number;
  readonly text: string;
  /** The session that it opened or is of. */
  readonly session?: string;
}

/** Sends a message as it is, in a session of the older era where one is named. */
async function send(
  url: URL,
  token: string,
  message: { readonly method: string; readonly session?: string; readonly body?: unknown },
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  const { method, session, body } = message;
  const response = await fetch(url, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      accept: "application/json, text/event-stream",
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...(session === undefined
        ? {}
        : { "mcp-session-id": session, "mcp-protocol-version": "2025-11-25" }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const opened = response.headers.get("mcp-session-id") ?? undefined;
  return { status: response.status, text: await response.text(), session: opened };
}

/** Asks for a path exactly as it is written, which `fetch` would tidy up. */
async function rawRequest(url: URL, method: string, path: string): Promise<Answer> {
  using connection = await Deno.connect({ hostname: url.hostname, port: Number(url.port) });
  const request = `${method} ${path} HTTP/1.1\r\nHost: ${url.host}\r\nConnection: close\r\n` +
    `Authorization: Bearer ${BOB}\r\nContent-Length: 0\r\n\r\n`;
  await connection.write(new TextEncoder().encode(request));
  const text = await new Response(connection.readable).text();
  return { status: Number(text.split(" ")[1]), text };
}
