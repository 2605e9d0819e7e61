/** MCP servers as others publish them, registered and called from code in a kernel. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import type { CodeExecutor } from "../../src/executor/code_executor.ts";
import type { ExecutionEvent } from "../../src/executor/options.ts";
import { TestExecutor } from "../support/executor.ts";
import { npmPackage, npmServer } from "../support/mcp.ts";
import { pythonServers } from "../support/python_servers.ts";
import { testIf } from "../support/skip.ts";
import { stepsOf } from "../support/steps.ts";
import { TempFolder } from "../support/temp_folder.ts";

const OPTIONS = { connectTimeoutMs: 120_000, sandbox: false };

/** Runs code that ends by printing JSON. */
async function json(executor: CodeExecutor, code: string): Promise<unknown> {
  const { text } = await executor.execute(`import json\n${code}`);
  return JSON.parse(text?.trimEnd().split("\n").at(-1) ?? "");
}

Deno.test("server-everything: each of its tools, resources and prompts", async (t) => {
  await using test = await TestExecutor.start(OPTIONS);
  const { executor } = test;
  const step = stepsOf(t);
  const tools = await executor.registerServer("everything", npmServer("server-everything"));
  assertEquals(tools.filter(({ module }) => module === null), []);
  const called = new Set<string>();

  await step("tools that answer with text, numbers and structured content", async () => {
    const found = await json(
      executor,
      `
from mcptools import everything as e
city = e.get_structured_content(location="Chicago")
env = json.loads(e.get_env())
print(json.dumps([
    e.echo(message="hello"), e.get_sum(a=20, b=22), sorted(city.model_dump()), "PATH" in env,
    e.toggle_simulated_logging(), e.toggle_simulated_logging(),
    e.toggle_subscriber_updates(), e.toggle_subscriber_updates(),
]))`,
    );
    assert(Array.isArray(found));
    assertEquals(found.slice(0, 4), [
      "Echo: hello",
      "The sum of 20 and 22 is 42.",
      ["conditions", "humidity", "temperature"],
      true,
    ]);
    for (const said of found.slice(4)) assertMatch(String(said), /^(Started|Stopped) simulated/);
    for (const name of ["echo", "get-sum", "get-structured-content", "get-env"]) called.add(name);
    called.add("toggle-simulated-logging").add("toggle-subscriber-updates");
  });

  await step("tools that answer with images, annotations, links and resources", async () => {
    const found = await json(
      executor,
      `
import gzip, ipybox_runtime as r
runner = r.ToolRunner("everything")
image = next(b for b in runner.run_sync("get-tiny-image").content if isinstance(b, r.ToolImage))
noted = runner.run_sync("get-annotated-message", {"messageType": "error", "includeImage": True})
links = runner.run_sync("get-resource-links", {"count": 3}).content[1:]
text = runner.run_sync("get-resource-reference", {"resourceType": "Text", "resourceId": 1})
data = {"name": "a.gz", "data": "data:text/plain,abc", "outputType": "resource"}
zipped = runner.run_sync("gzip-file-as-resource", data).content[0]
print(json.dumps([
    image.mime_type, image.data[:4].hex(),
    [type(b).__name__ for b in noted.content],
    [type(link).__name__ for link in links], bool(links[0].read().text or links[1].read().text),
    [type(b).__name__ for b in text.content],
    gzip.decompress(zipped.data).decode(),
]))`,
    );
    assertEquals(found, [
      "image/png",
      "89504e47",
      ["TextBlock", "ToolImage"],
      ["ResourceLink", "ResourceLink", "ResourceLink"],
      true,
      ["TextBlock", "ToolResource", "TextBlock"],
      "abc",
    ]);
    for (const name of ["get-tiny-image", "get-annotated-message", "get-resource-links"]) {
      called.add(name);
    }
    called.add("get-resource-reference").add("gzip-file-as-resource");
  });

  await step("tools that take long, ask, or want what clients may not have", async () => {
    const events: string[] = [];
    const code = `
from mcptools import everything as e
print(e.trigger_long_running_operation(duration=0.2, steps=2))
print(e.trigger_elicitation_request())
print(e.trigger_url_elicitation(url="https://example.org/", message="please"))
print(e.simulate_research_query(topic="ipybox")) # which only runs as a task
`;
    let text = "";
    for await (const event of executor.stream(code, { events: ["elicitation"] })) {
      switch (event.type) {
        case "approval":
          await event.request.accept();
          break;
        case "elicitation":
          events.push(`elicitation ${event.request.question.kind}`);
          if (event.request.question.kind === "url") event.request.accept();
          else event.request.decline();
          break;
        case "progress":
          events.push(`progress ${event.progress}/${event.total}`);
          break;
        case "result":
          text = event.result.text ?? "";
          break;
        case "chunk":
        case "log":
        case "tools_changed":
      }
    }
    assertEquals(events, ["progress 1/2", "progress 2/2", "elicitation form", "elicitation url"]);
    assertMatch(text, /Long running operation completed/);
    assertMatch(text, /declined/);
    assertMatch(text, /Research Report: ipybox/);
    for (const name of ["trigger-long-running-operation", "trigger-elicitation-request"]) {
      called.add(name);
    }
    called.add("trigger-url-elicitation").add("simulate-research-query");
    assertEquals([...called].sort(), tools.map(({ tool }) => tool).sort());
  });

  await step("all resources and prompts", async () => {
    const found = await json(
      executor,
      `
from mcptools import everything as e
listed = e.resources.list()
static = [link for link in listed if "/static/" in link.uri] # one of the others is made above
assert len(static) == 7 and all(link.read().text for link in static)
dynamic = [e.resources.read(t.uri_template.replace("{resourceId}", "3")) for t in e.resources.templates()]
prompts = {p.name: [a.name for a in p.arguments] for p in e.prompts.list()}
values = {"city": "Berlin", "department": "Sales", "name": "Eve", "resourceType": "Text", "resourceId": "1"}
said = {name: len(e.prompts.get(name, **{a: values[a] for a in names if a in values}).messages)
        for name, names in prompts.items()}
print(json.dumps([[bool(d.data) for d in dynamic], said]))`,
    );
    assertEquals(found, [
      [true, true],
      { "args-prompt": 1, "completable-prompt": 1, "resource-prompt": 2, "simple-prompt": 1 },
    ]);
  });
});

Deno.test("published servers register beside each other and answer", async (t) => {
  await using test = await TestExecutor.start(OPTIONS);
  const { executor } = test;
  const step = stepsOf(t);

  await step("server-memory writes a graph, searches it, and keeps it in its file", async () => {
    await using folder = await TempFolder.create();
    const file = `${folder.path}/memory.jsonl`;
    const memory = npmServer("server-memory");
    const params = { ...memory, env: { ...memory.env, MEMORY_FILE_PATH: file } };
    assertEquals((await executor.registerServer("memory", params)).length, 9);
    const found = await json(
      executor,
      `
from mcptools import memory as m
m.create_entities(entities=[
    {"name": "Ada", "entityType": "person", "observations": ["writes programs"]},
    {"name": "Engine", "entityType": "machine", "observations": []},
])
m.create_relations(relations=[{"from": "Ada", "to": "Engine", "relationType": "programs"}])
m.add_observations(observations=[{"entityName": "Engine", "contents": ["analytical"]}])
hits = m.search_nodes(query="analytical").entities
relation, = m.read_graph().relations
m.delete_entities(entityNames=["Ada"])
left = m.open_nodes(names=["Ada", "Engine"])
print(json.dumps([[h.name for h in hits], relation.from_, [e.name for e in left.entities], left.relations]))`,
    );
    assertEquals(found, [["Engine"], "Ada", ["Engine"], []]);
    assertMatch(await Deno.readTextFile(file), /analytical/);
  });

  await step("server-sequential-thinking counts thoughts in structured content", async () => {
    await executor.registerServer("thinking", npmServer("server-sequential-thinking"));
    const found = await json(
      executor,
      `
from mcptools import thinking
for number in (1, 2):
    result = thinking.sequentialthinking(
        thought=f"step {number}", thoughtNumber=number, totalThoughts=2, nextThoughtNeeded=number < 2)
print(json.dumps([result.thoughtHistoryLength, result.nextThoughtNeeded]))`,
    );
    assertEquals(found, [2, false]);
  });

  await step(
    "mcp-obsidian and server-gitlab, whose lists are odd, register and answer",
    async () => {
      await using vault = await TempFolder.create();
      await Deno.writeTextFile(`${vault.path}/note.md`, "kept");
      const gitlab = npmPackage("@modelcontextprotocol/server-gitlab@2025.4.25");
      const env = { ...gitlab.env, GITLAB_PERSONAL_ACCESS_TOKEN: "none" };
      const registered = [
        await executor.registerServer("obsidian", npmPackage("mcp-obsidian@1.0.0", vault.path)),
        await executor.registerServer("gitlab", {
          ...gitlab,
          env: { ...env, GITLAB_API_URL: "http://127.0.0.1:9/api" },
        }),
      ];
      assertEquals(registered.map((tools) => tools.length), [2, 9]);
      assertEquals(registered.flat().filter(({ module }) => module === null), []);
      const found = await json(
        executor,
        `
from ipybox_runtime import ToolCallError
from mcptools import gitlab, obsidian
said = [obsidian.search_notes.run(query="note"), obsidian.read_notes.run(paths=["note.md"])]
try:
    gitlab.create_branch.run(project_id="1", branch="b")
except ToolCallError as error:
    said.append(str(error))
print(json.dumps(said))`,
      );
      assert(Array.isArray(found));
      assertMatch(String(found[0]), /note\.md/);
      assertMatch(String(found[1]), /kept/);
      assertMatch(String(found[2]), /127\.0\.0\.1|fetch|ECONNREFUSED/i); // the server tried
    },
  );

  await step("git-mcp-server makes a repository, commits, and says why it fails", async () => {
    await using folder = await TempFolder.create();
    const git = npmPackage("@cyanheads/git-mcp-server@2.15.3");
    const env = {
      ...git.env,
      MCP_LOG_LEVEL: "error",
      LOGS_DIR: `${folder.path}/logs`,
      GIT_BASE_DIR: folder.path,
      GIT_COMMITTER_NAME: "Ada",
      GIT_COMMITTER_EMAIL: "ada@example.org",
    };
    await executor.registerServer("git", { ...git, env });
    await Deno.mkdir(`${folder.path}/repository`);
    await Deno.writeTextFile(`${folder.path}/repository/a.txt`, "hello");
    const found = await json(
      executor,
      `
from mcptools import git
import ipybox_runtime as r
path = "${folder.path}/repository"
git.git_init(path=path, initialBranch="main")
git.git_add(path=path, paths=["a.txt"])
author = {"name": "Ada", "email": "ada@example.org"}
git.git_commit(path=path, message="Begin", author=author)
log = git.git_log(path=path)
clean = git.git_status(path=path)
try:
    git.git_status(path="/")
    refused = None
except r.ToolError as error:
    refused = str(error)
print(json.dumps([[c.message if hasattr(c, "message") else c.subject for c in log.commits],
                  log.commits[0].author, clean.isClean, refused]))`,
    );
    assert(Array.isArray(found));
    assertEquals(found.slice(0, 3), [["Begin"], "Ada", true]);
    assertMatch(String(found[3]), /Path traversal detected/);
  });
});

const servers = await pythonServers();

testIf("python" in servers, "missing" in servers ? servers.missing : "", {
  name: "servers in Python: structured content, errors, progress, images",
  fn: async (t) => {
    if (!("python" in servers)) return;
    await using test = await TestExecutor.start(OPTIONS);
    const { executor } = test;
    const step = stepsOf(t);
    const script = new URL("../fixtures/mcp/python_server.py", import.meta.url).pathname;
    for (const kind of ["mcp", "fastmcp"]) {
      await step(`on ${kind}`, async () => {
        await executor.registerServer(kind, { command: servers.python, args: [script, kind] });
        const code = `
import json
from mcptools import ${kind} as py
import ipybox_runtime as r
forecast = py.forecast(city="Berlin", hours=3)
try:
    py.fail(reason="it rains")
except r.ToolError as error:
    failed = str(error)
told = []
with r.call_options(on_progress=lambda p: told.append([p.progress, p.total, p.message])):
    py.count(steps=2)
image, = py.dot().images
try:
    py.add(a="one", b=2)
except Exception as error:
    invalid = type(error).__name__
print(json.dumps([
    py.add(a=40, b=2).result, forecast.city, forecast.degrees, failed, told,
    [image.mime_type, image.data.hex()], invalid,
    py.resources.read("note://a").text, str(py.prompts.get("greet", name="Ada").messages[0].content),
]))`;
        const events: ExecutionEvent[] = [];
        for await (const event of executor.stream(code)) {
          events.push(event);
          if (event.type === "approval") await event.request.accept();
        }
        const text = events.flatMap((event) =>
          event.type === "result" ? event.result.text ?? "" : []
        );
        const found: unknown = JSON.parse(text.join(""));
        assert(Array.isArray(found));
        assertMatch(String(found[3]), /it rains/);
        assertEquals(found.toSpliced(3, 1), [
          42,
          "Berlin",
          [20.5, 20.5, 20.5],
          [[1, 2, "step 1"], [2, 2, "step 2"]],
          ["image/png", "89504e470d0a1a0a"],
          "ValidationError",
          "the note a",
          "Say hello to Ada",
        ]);
        assertEquals(events.filter(({ type }) => type === "progress").length, 2);
      });
    }
  },
});
