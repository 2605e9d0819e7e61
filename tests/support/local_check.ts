/**
 * The check of cells without a kernel: many of them take seconds.
 *
 * @module
 */
import { dirname, join } from "node:path";
import { LanguageServer } from "../../src/check/language_server.ts";
import { parseInspection } from "../../src/check/inspection.ts";
import {
  type CodeProblem,
  type Findings,
  judge,
  undefinedNames,
} from "../../src/check/problems.ts";
import { StubTree } from "../../src/check/stub_tree.ts";
import { ManagedProcess } from "../../src/process/managed_process.ts";
import { programOf } from "../../src/process/program.ts";
import { testPython } from "./python.ts";
import { TempFolder } from "./temp_folder.ts";

const RUNTIME = new URL("../../templates/runtime", import.meta.url).pathname;
const LOOK = new URL("../python/look_at_cells.py", import.meta.url).pathname;

/** Checks cells, each in a session of its own, against the generated modules in a folder. */
export class LocalCheck implements AsyncDisposable {
  readonly #parts: AsyncDisposableStack;
  readonly #looks: Looks;
  readonly #server: LanguageServer;
  readonly #stubs: StubTree;

  private constructor(
    parts: AsyncDisposableStack,
    looks: Looks,
    { server, stubs }: { readonly server: LanguageServer; readonly stubs: StubTree },
  ) {
    this.#parts = parts;
    this.#looks = looks;
    this.#server = server;
    this.#stubs = stubs;
  }

  /**
   * Starts a type checker, and a Python that looks at code.
   *
   * @param mcptools The folder of generated packages.
   * @returns The check.
   */
  static async start(mcptools: string): Promise<LocalCheck> {
    await using parts = new AsyncDisposableStack();
    const folder = parts.use(await TempFolder.create()).path;
    const python = await programOf(testPython());
    const env = { HOME: folder, IPYTHONDIR: folder, PATH: dirname(python) };
    const options = { env, inputGraceMs: 1000 };
    const looking = parts.use(
      ManagedProcess.spawn({ ...options, command: python, args: ["-I", LOOK, RUNTIME] }),
    );
    const command = await programOf(join(dirname(python), "ty"));
    const checking = parts.use(ManagedProcess.spawn({ ...options, command, args: ["server"] }));
    const stubs = new StubTree(folder, mcptools);
    await stubs.begin();
    const server = parts.use(await LanguageServer.start(checking.pipes, folder));
    return new LocalCheck(parts.move(), new Looks(looking), { server, stubs });
  }

  /**
   * Checks a cell.
   *
   * @param code The cell.
   * @param servers The servers whose stubs it needs; otherwise those that the kernel sees.
   * @returns What was found; a syntax error is certain.
   */
  async check(code: string, servers?: Iterable<string>): Promise<Findings> {
    const found = parseInspection(await this.#looks.look(code));
    if (found === undefined) throw new Error("The code was not inspected");
    if ("syntax" in found) return { certain: [atLine(found.syntax)], possible: [] };
    const { inspection } = found;
    const named = servers ?? inspection.tools.map(([server]) => server);
    this.#server.filesChanged(await this.#stubs.update(new Set(named)));
    this.#server.append(inspection.text);
    const { certain, possible } = await judge(await this.#server.diagnose(), inspection, {
      names: this.#stubs,
      signal: new AbortController().signal,
    });
    this.#server.remove(0);
    const names = undefinedNames(inspection);
    return {
      certain: [...names.certain, ...certain],
      possible: [...names.possible, ...possible],
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts.disposeAsync();
  }
}

function atLine({ name, message, line }: {
  readonly name: string;
  readonly message: string;
  readonly line: number;
}): CodeProblem {
  const at = { line: line - 1, column: 0, endLine: line - 1, endColumn: 1 };
  return { ...at, ename: name, evalue: message };
}

/** Asks the Python that looks at code. */
class Looks {
  readonly #process: ManagedProcess;
  #rest = "";

  constructor(process: ManagedProcess) {
    this.#process = process;
  }

  async look(code: string): Promise<string> {
    const { pipes } = this.#process;
    await pipes.write(new TextEncoder().encode(`${JSON.stringify(code)}\n`));
    const decoder = new TextDecoder();
    for (;;) {
      const end = this.#rest.indexOf("\n");
      if (end >= 0) {
        const line = this.#rest.slice(0, end);
        this.#rest = this.#rest.slice(end + 1);
        return line;
      }
      const bytes = await pipes.read();
      if (bytes === null) throw new Error(`No answer: ${this.#process.stderrTail}`);
      this.#rest += decoder.decode(bytes, { stream: true });
    }
  }
}
