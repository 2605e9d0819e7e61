/** Servers whose lists of tools cost the host time: what they list again and again, and at what size. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { silentLogger } from "../../src/base/log.ts";
import { ToolRunner } from "../../src/calls/runner.ts";
import { listAll } from "../../src/mcp/catalog.ts";
import { rawServer } from "../support/mcp.ts";
import { Stalls } from "../support/stalls.ts";
import { TempFolder } from "../support/temp_folder.ts";

class Lister implements AsyncDisposable {
  readonly #folder: TempFolder;
  readonly #runner: ToolRunner;

  private constructor(folder: TempFolder, runner: ToolRunner) {
    this.#folder = folder;
    this.#runner = runner;
  }

  static async start(): Promise<Lister> {
    const folder = await TempFolder.create();
    const servers = { bad: rawServer("normal", `${folder.path}/journal`) };
    const options = { servers, approval: "allow", log: silentLogger } as const;
    return new Lister(folder, await ToolRunner.start(options));
  }

  async call(name: string, args = {}, signal?: AbortSignal): Promise<string> {
    const { content } = await this.#runner.run("bad", name, args, { signal });
    return String(content[0]?.text);
  }

  /** Has a tool listed; the change is reported unless `quiet`. */
  async define(tool: object, quiet: boolean, signal?: AbortSignal): Promise<void> {
    assertEquals(await this.call("define", { tool, quiet }, signal), "defined");
  }

  /** How often the server was asked for its list. */
  async lists(): Promise<number> {
    const journal = await Deno.readTextFile(`${this.#folder.path}/journal`);
    return journal.match(/^tools\/list$/gm)?.length ?? 0;
  }

  async unusable(name: string): Promise<string | undefined> {
    const { tools, unusable } = await this.#runner.describe("bad");
    return unusable[tools.findIndex((tool) => JSON.stringify(tool).includes(`"${name}"`))];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#runner[Symbol.asyncDispose]();
    await this.#folder[Symbol.asyncDispose]();
  }
}

const schema = { type: "object" };

Deno.test("a large list that changes with each call is not asked for with each call", async () => {
  await using server = await Lister.start();
  for (let at = 0; at < 4; at++) {
    const tool = { name: `large${at}`, description: "x".repeat(3e6), inputSchema: schema };
    await server.define(tool, true);
  }
  const before = await server.lists();
  const enough = AbortSignal.timeout(5000);
  let calls = 0;
  try {
    for (; calls < 30; calls++) {
      await server.define({ name: "small", inputSchema: schema }, false, enough);
    }
  } catch (error) {
    assert(enough.aborted, String(error));
  }
  const lists = await server.lists() - before;
  assert(lists <= 5, `12 MB were listed ${lists} times for ${calls} calls`);
});

Deno.test("a list of many tools counts for what their modules take, however small they are", async () => {
  const tools = Array.from({ length: 5000 }, (_, at) => ({ name: `t${at}`, inputSchema: {} }));
  let weight = 0;
  await listAll("tools/list", () => Promise.resolve({ tools }), (bytes) => weight += bytes);
  assert(weight > 16 * 2 ** 20, `${weight}`); // two of them are what may be listed at once
});

Deno.test("a small list that changes with each call is asked for with each call", async () => {
  await using server = await Lister.start();
  for (let at = 0; at < 30; at++) {
    await server.define({ name: `new${at}`, inputSchema: schema }, false);
    assertEquals(await server.call(`new${at}`), `this is new${at}`);
  }
  assert(await server.lists() >= 30);
});

Deno.test("calls at the same time ask for the list once", async () => {
  await using server = await Lister.start();
  await Promise.all(Array.from({ length: 30 }, () => server.call("count")));
  assertEquals(await server.lists(), 1);
});

Deno.test("a list of 190,000 names holds others up for less than two seconds", async () => {
  await using server = await Lister.start();
  const properties = Object.fromEntries(
    Array.from({ length: 47_000 }, (_, at) => [`p${at}`, { a: 1, b: 2, c: 3 }]),
  );
  await server.define({ name: "new_wide", inputSchema: { type: "object", properties } }, false);
  using stalls = new Stalls();
  assertEquals(await server.call("new_wide"), "this is new_wide");
  assert(stalls.longestMs < 2000, `${stalls.longestMs} ms`);
});

Deno.test("a tool whose definition takes more than 4 MiB is left out of the API, and others are not", async () => {
  await using server = await Lister.start();
  const large = { name: "new_large", description: "x".repeat(4.5e6), inputSchema: schema };
  await server.define(large, false);
  assertMatch(await server.unusable("new_large") ?? "", /needs more than 4 MiB of memory/);
  assertEquals(await server.call("count"), "1");
});
