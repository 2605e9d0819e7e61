/** Servers whose lists of tools change: what is listed again, and what is not. */
import { assert, assertEquals } from "@std/assert";
import { silentLogger } from "../../src/base/log.ts";
import { ToolRunner } from "../../src/calls/runner.ts";
import { rawServer } from "../support/mcp.ts";
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

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#runner[Symbol.asyncDispose]();
    await this.#folder[Symbol.asyncDispose]();
  }
}

const schema = { type: "object" };

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
