import { basename, dirname, join } from "node:path";
import { readPackage } from "../apigen/package.ts";
import { type StubbedTool, stubOfModule, stubOfPackage } from "../apigen/stubs.ts";
import { assetTree } from "../assets/mod.ts";
import { Mutex } from "../base/mutex.ts";
import { ifPresent, readHostileFile } from "../files/safe.ts";
import type { ChangedFile } from "./language_server.ts";

/** A server's stubs, and the version of the definitions that they were made from. */
interface Written {
  readonly version: string;
  readonly modules: ReadonlyMap<string, number>;
}

/** The stubs of a workspace's generated modules, written for the servers that code names. */
export class StubTree {
  readonly #folder: string;
  readonly #mcptools: string;
  readonly #servers = new Map<string, Written>();
  /** The tools that have a stub, by ids that are never reused. */
  readonly #tools = new Map<number, StubbedTool>();
  readonly #updates = new Mutex();
  #nextId = 0;

  /** Stubs are written to `folder`; `mcptools` has the generated modules. */
  constructor(folder: string, mcptools: string) {
    this.#folder = folder;
    this.#mcptools = mcptools;
  }

  /** Writes the stubs that do not depend on servers. */
  async begin(): Promise<void> {
    const texts = assetTree("stubs").map(({ path, text }) => [path, text] as const);
    for (const [path, text] of [...texts, ["mcptools/__init__.pyi", ""] as const]) {
      await Deno.mkdir(join(this.#folder, dirname(path)), { recursive: true });
      await writeStub(join(this.#folder, path), text);
    }
  }

  /** Updates stubs and returns changed files. It always finishes: the next cell needs it. */
  async update(servers: Iterable<string>): Promise<ChangedFile[]> {
    using _turn = await this.#updates.acquire();
    const files: ChangedFile[] = [];
    for (const server of servers) {
      const version = await this.#versionOf(server);
      const known = this.#servers.get(server);
      if (known?.version === version) continue;
      const before = new Set(known === undefined ? [] : this.#pathsOf(server, known));
      if (known !== undefined) await this.#remove(server);
      const written = version === undefined ? undefined : await this.#add(server, version);
      const after = new Set(written === undefined ? [] : this.#pathsOf(server, written));
      // The checker has already listed the folders.
      const folder = join(this.#folder, "mcptools", server);
      if (known === undefined) files.push({ path: folder, change: "created" });
      if (written === undefined) files.push({ path: folder, change: "deleted" });
      for (const path of after) {
        files.push({ path, change: before.has(path) ? "changed" : "created" });
      }
      for (const path of before.difference(after)) files.push({ path, change: "deleted" });
    }
    return files;
  }

  #pathsOf(server: string, { modules }: Written): string[] {
    return ["__init__", ...modules.keys()].map((name) => this.#pathOf(server, name));
  }

  #pathOf(server: string, module: string): string {
    return join(this.#folder, "mcptools", server, `${module}.pyi`);
  }

  /** A tool by its id. */
  tool(id: number): StubbedTool | undefined {
    return this.#tools.get(id);
  }

  /** The names in `mcptools`, in a server's package or in a tool's module. */
  async members(module: string): Promise<readonly string[]> {
    const [, server, name] = module.split(".");
    if (server === undefined) return await this.#registered();
    const modules = this.#servers.get(server)?.modules;
    if (name === undefined) return [...modules?.keys() ?? [], "prompts", "resources"];
    return this.#tools.get(modules?.get(name) ?? -1)?.members ?? [];
  }

  /** Whether a user added a name to a module. */
  async isAdded(module: string, name: string): Promise<boolean> {
    if (!/^\w+(\.\w+)*$/.test(module)) return true; // cannot be determined
    const path = join(this.#mcptools, ...module.split(".").slice(1));
    for (const candidate of [join(path, name), join(path, `${name}.py`)]) {
      if (await ifPresent(Deno.lstat(candidate)) !== undefined) return true;
    }
    const source = await readHostileFile(`${path}.py`) ??
      await readHostileFile(join(path, "__init__.py"));
    return source !== undefined && new RegExp(`\\b${name}\\b`).test(source);
  }

  async #registered(): Promise<string[]> {
    const names: string[] = [];
    for await (const { name, isDirectory } of Deno.readDir(this.#mcptools)) {
      if (!isDirectory || !/^\w+$/.test(name)) continue;
      if (await this.#versionOf(name) !== undefined) names.push(name);
    }
    return names.sort();
  }

  /** Identifies the files that stubs are made from; `undefined` without them. */
  async #versionOf(server: string): Promise<string | undefined> {
    const versions = await Promise.all(["schema.json", "observed.json"].map(async (name) => {
      const info = await ifPresent(Deno.lstat(join(this.#mcptools, server, name)));
      return info?.isFile ? `${info.ino} ${info.size} ${info.mtime?.getTime()}` : undefined;
    }));
    return versions[0] && versions.join();
  }

  async #add(server: string, version: string): Promise<Written> {
    const definitions = await readPackage(this.#mcptools, server) ?? [];
    const modules = new Map<string, number>();
    await Deno.mkdir(join(this.#folder, "mcptools", server));
    this.#servers.set(server, { version: "", modules }); // after a failure, make it again
    for (const definition of definitions) {
      const { name: tool, module } = definition;
      const id = this.#nextId++;
      const stub = stubOfModule({ server, tool, module }, definition, id);
      this.#tools.set(id, stub.tool);
      modules.set(module, id);
      await writeStub(this.#pathOf(server, module), stub.text);
    }
    await writeStub(this.#pathOf(server, "__init__"), stubOfPackage(modules));
    const written = { version, modules };
    this.#servers.set(server, written);
    return written;
  }

  async #remove(server: string): Promise<void> {
    for (const id of this.#servers.get(server)?.modules.values() ?? []) this.#tools.delete(id);
    this.#servers.delete(server);
    await Deno.remove(join(this.#folder, "mcptools", basename(server)), { recursive: true });
  }
}

async function writeStub(path: string, text: string): Promise<void> {
  await Deno.writeTextFile(path, text, { createNew: true });
}
