import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { ConfigError } from "../base/errors.ts";
import { generatePackage } from "./generate.ts";
import { type IndexedTool, stem, ToolIndex, ToolRanking, wordsOf } from "./search.ts";

/** Writes a package of a server with these tools. */
async function write(rootDir: string, server: string, ...names: string[]): Promise<void> {
  const tools = names.map((name) => ({
    name,
    description: `Does ${name}.`,
    inputSchema: { type: "object", properties: { path: { type: "string" } } },
  }));
  await generatePackage(server, { tools }, { rootDir });
}

async function found(index: ToolIndex, query: string, ...servers: string[]): Promise<string[]> {
  const { tools } = await index.search(query, servers);
  return tools.map(({ server, module }) => `${server}.${module}`);
}

Deno.test("ToolIndex lists all tools by server for an empty query", async () => {
  await using folder = await TempFolder.create();
  await write(folder.path, "files", "read-file", "write-file");
  await write(folder.path, "web", "fetch");
  const index = new ToolIndex(folder.path);
  assertEquals(await found(index, "", "files", "web"), [
    "files.read_file",
    "files.write_file",
    "web.fetch",
  ]);
  assertEquals((await index.search("", ["web", "gone"])).missing, ["gone"]);
});

Deno.test("ToolIndex ranks the tools of the servers that count", async () => {
  await using folder = await TempFolder.create();
  await write(folder.path, "files", "read-file", "write-file");
  await write(folder.path, "web", "write-page", "fetch");
  const index = new ToolIndex(folder.path);
  assertEquals((await found(index, "write a file", "files", "web"))[0], "files.write_file");
  assertEquals((await found(index, "write a file", "web"))[0], "web.write_page");
  assertEquals((await found(index, "path", "web")).length, 2); // by a parameter
});

Deno.test("ToolIndex follows packages that are written anew", async () => {
  await using folder = await TempFolder.create();
  await write(folder.path, "web", "fetch");
  const index = new ToolIndex(folder.path);
  assertEquals(await found(index, "download", "web"), []);
  await write(folder.path, "web", "fetch", "download");
  assertEquals(await found(index, "download", "web"), ["web.download"]);
});

Deno.test("ToolIndex says which package is damaged", async () => {
  await using folder = await TempFolder.create();
  for (const text of ["{", "[]", '{"tools": [{}]}']) {
    await Deno.mkdir(`${folder.path}/web`, { recursive: true });
    await Deno.writeTextFile(`${folder.path}/web/schema.json`, text);
    const index = new ToolIndex(folder.path);
    await assertRejects(() => index.search("x", ["web"]), ConfigError, "web/schema.json");
  }
});

Deno.test("ToolIndex searches the other servers where one lists more than can be read", async () => {
  await using folder = await TempFolder.create();
  const large = Array.from({ length: 20 }, (_, at) => (
    { name: `tool${at}`, description: "large ".repeat(40_000), inputSchema: {} }
  ));
  await generatePackage("large", { tools: large }, { rootDir: folder.path });
  await write(folder.path, "web", "fetch");
  const index = new ToolIndex(folder.path);

  const { tools, missing, damaged } = await index.search("fetch", ["large", "web"]);

  assertEquals([tools.map(({ name }) => name), missing], [["fetch"], []]);
  assertMatch(damaged.join("\n"), /^Cannot read .*large\/schema\.json: it is larger than 4 MiB$/);
});

Deno.test("ToolIndex finds tools by other words, by the server's name, and by their results", async () => {
  await using folder = await TempFolder.create();
  const tool = (name: string, description: string, output: string) => ({
    name,
    description,
    inputSchema: { type: "object" },
    outputSchema: { type: "object", properties: { [output]: { type: "string" } } },
  });
  for (const server of ["gitlab", "github"]) {
    const tools = [
      tool("delete_branch", "Removes a branch.", "sha"),
      tool("create_issue", "Files an issue.", "number"),
      tool("weather", "Tells it.", "humidity"),
    ];
    await generatePackage(server, { tools }, { rootDir: folder.path });
  }
  const index = new ToolIndex(folder.path);
  const first = async (query: string) => (await found(index, query, "github", "gitlab"))[0];
  assertEquals(await first("erasing branches on GitLab"), "gitlab.delete_branch");
  assertEquals(await first("open a ticket in git hub"), "github.create_issue");
  assertEquals(await first("humidity gitlab"), "gitlab.weather");
});

Deno.test("ToolIndex puts the tool first whose name has the words, however much else it says", async () => {
  await using folder = await TempFolder.create();
  const fields = Array.from({ length: 12 }, (_, at) => `field${at}`);
  const long = Object.fromEntries(fields.map((name) => [name, { description: `The ${name}.` }]));
  const tool = (name: string, description: string, properties: object = {}) => (
    { name, description, inputSchema: { type: "object", properties } }
  );
  const tools = [
    tool("add_issue_comment", "Creates a comment on an issue."),
    tool("create_issue", "Opens one in a repository.", long),
    tool("get_repository", "Reads a repository."),
  ];
  await generatePackage("github", { tools }, { rootDir: folder.path });
  const index = new ToolIndex(folder.path);

  assertEquals((await found(index, "create an issue", "github"))[0], "github.create_issue");
  assertEquals((await found(index, "comment on issue", "github"))[0], "github.add_issue_comment");
});

Deno.test("ToolIndex ranks saved actions with the tools", async () => {
  await using folder = await TempFolder.create();
  await write(folder.path, "files", "get_file_info");
  const index = new ToolIndex(`${folder.path}`);
  const action = (name: string, description: string): IndexedTool => (
    { server: "gentools", name, module: name, description, annotations: {}, definition: new Map() }
  );
  const search = async (query: string, ...actions: IndexedTool[]) => {
    const { tools } = await index.search(query, ["files"], actions);
    return tools.map(({ name }) => name);
  };
  const region = action("sales.by_region", "Total units and path for each region.");

  assertEquals(await search("units per region and path", region), [region.name, "get_file_info"]);
  assertEquals(await search("info of a path", region), ["get_file_info", region.name]);
  const rewritten = action("sales.by_region", "Does it.");
  assertEquals(await search("units and path", rewritten), ["get_file_info"]);
});

async function ranked(query: string, ...texts: string[]): Promise<string[]> {
  const described = texts.map((description) => (
    { server: "", name: "", module: "", description, annotations: {}, definition: new Map() }
  ));
  const ranking = await ToolRanking.of(described);
  return ranking.search(query).map(({ description }) => description);
}

Deno.test("wordsOf() takes names apart and knows plurals", () => {
  assertEquals(wordsOf("listHTTPServers get_repositories the 2 boxes"), [
    "list",
    "http",
    "server",
    "get",
    "repository",
    "2",
    "box",
  ]);
});

Deno.test("ToolRanking puts documents with the rarer word first", async () => {
  const found = await ranked(
    "create issue",
    "create file",
    "create branch",
    "close issue",
    "create tag",
  );
  assertEquals(found, ["close issue", "create file", "create branch", "create tag"]);
});

Deno.test("ToolRanking finds what has most of the words, and shorter texts before longer ones", async () => {
  assertEquals(
    await ranked(
      "send message",
      "send",
      "a message to send to somebody abroad",
      "send message",
      "other",
    ),
    ["send message", "a message to send to somebody abroad", "send"],
  );
});

Deno.test("ToolRanking finds words by how they begin, after those that are the same", async () => {
  assertEquals(await ranked("repo", "search repositories", "a repo of them all and more"), [
    "a repo of them all and more",
    "search repositories",
  ]);
  assertEquals(await ranked("re", "repositories"), []);
});

Deno.test("ToolRanking finds nothing for words that nothing has", async () => {
  assertEquals(await ranked("xylophone", "search repositories"), []);
  assertEquals(await ranked("the of", "search repositories"), []);
  assertEquals(await ranked("anything"), []);
  assertEquals(await ranked("write", "the MIME type", "fill a field"), ["fill a field"]);
});

Deno.test("stem() gives the forms of a word one form", () => {
  const forms = [
    ["create", "creates", "created", "creating", "creation"],
    ["delete", "deleting", "deletion"],
    ["run", "running"],
    ["deploy", "deployment", "deployed"],
    ["retry", "retrying"],
    ["list", "listing"],
  ];
  for (const [first = "", ...others] of forms) {
    for (const form of others) {
      if (form !== "creates") assertEquals(stem(form), stem(first), form); // plurals go before
    }
  }
});

Deno.test("stem() leaves short words, numbers and other scripts alone", () => {
  for (const word of ["get", "s3", "ring", "überall", "写入", ""]) assertEquals(stem(word), word);
});
