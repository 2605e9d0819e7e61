import { basename, join } from "node:path";
import { readPackage } from "../apigen/package.ts";
import { type StubbedTool, stubOfModule, stubOfPackage } from "../apigen/stubs.ts";
import { assetTree } from "../assets/mod.ts";
import { ifPresent, readHostileFile } from "../files/safe.ts";
import type { KnownNames } from "./problems.ts";

/** Further tools of a server are not looked at: they could keep the host busy. */
const MAX_TOOLS = 1000;

/** What every module of a tool has besides its classes. */
const OF_A_TOOL = ["CLIENT", "run", "run_async"];

/** A server's stubs, and the state of the definitions that they were made of. */
interface Written {
  readonly version: string;
  readonly modules: ReadonlyMap<string, number>;
}

/** The stubs of a workspace's generated modules, written for those servers that code names. */
export class StubTree implements KnownNames {
  readonly #folder: string;
  readonly #mcptools: string;
  readonly #servers = new Map<string, Written>();
  readonly #tools: StubbedTool[] = [];

  /**
   * @param folder Where they are written.
   * @param mcptools The generated modules.
   */
  constructor(folder: string, mcptools: string) {
    this.#folder = folder;
    this.#mcptools = mcptools;
  }

  /** Writes what does not depend on servers. */
  async begin(): Promise<void> {
    for (const { path, text } of assetTree("stubs")) await this.#write(path, text);
    await this.#write("mcptools/__init__.pyi", "");
  }

  /** Brings the stubs of servers up to date, and gives the paths of the files that are new. */
  async update(servers: Iterable<string>): Promise<string[]> {
    const paths: string[] = [];
    for (const server of servers) {
      const version = await this.#versionOf(server);
      const known = this.#servers.get(server);
      if (known?.version === version) continue;
      if (known !== undefined) await this.#remove(server);
      if (version !== undefined) paths.push(...await this.#add(server, version));
    }
    return paths;
  }

  tool(id: number): StubbedTool | undefined {
    return this.#tools[id];
  }

  async members(module: string): Promise<readonly string[]> {
    const [, server, name] = module.split(".");
    if (server === undefined) return await this.#registered();
    const modules = this.#servers.get(server)?.modules;
    if (name === undefined) return [...modules?.keys() ?? [], "prompts", "resources"];
    const tool = this.#tools[modules?.get(name) ?? -1];
    return [...OF_A_TOOL, ...tool?.fields.keys() ?? []];
  }

  async isAdded(module: string, name: string): Promise<boolean> {
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
      if (isDirectory && /^\w+$/.test(name)) names.push(name);
    }
    return names;
  }

  async #versionOf(server: string): Promise<string | undefined> {
    const info = await ifPresent(Deno.lstat(join(this.#mcptools, server, "schema.json")));
    return info?.isFile ? `${info.ino} ${info.size} ${info.mtime?.getTime()}` : undefined;
  }

  async #add(server: string, version: string): Promise<string[]> {
    const definitions = await readPackage(this.#mcptools, server) ?? [];
    const paths: string[] = [];
    const modules = new Map<string, number>();
    for (const { name: tool, module, definition } of definitions.slice(0, MAX_TOOLS)) {
      const id = this.#tools.length;
      const stub = stubOfModule({ server, tool, module }, definition, id);
      this.#tools.push(stub.tool);
      modules.set(module, id);
      paths.push(await this.#write(`mcptools/${server}/${module}.pyi`, stub.text));
    }
    paths.push(await this.#write(`mcptools/${server}/__init__.pyi`, stubOfPackage(modules)));
    this.#servers.set(server, { version, modules });
    return paths;
  }

  async #remove(server: string): Promise<void> {
    this.#servers.delete(server);
    await Deno.remove(join(this.#folder, "mcptools", basename(server)), { recursive: true });
  }

  async #write(path: string, text: string): Promise<string> {
    const target = join(this.#folder, path);
    await Deno.mkdir(join(target, ".."), { recursive: true });
    await Deno.writeTextFile(target, text);
    return target;
  }
}
