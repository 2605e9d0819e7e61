import { pathToFileURL as toFileUrl } from "node:url";
import { z } from "zod";
import { ByteBuffer } from "../base/bytes.ts";
import { settledWithin } from "../base/signals.ts";
import { bytesOf, type ByteStream } from "../base/streams.ts";
import { checkJson } from "../json/measure.ts";

/** A range in a cell. Lines and columns count from 0, columns in UTF-16; the end is exclusive. */
export interface CellRange {
  /** The first line. */
  readonly line: number;
  /** The column in the first line. */
  readonly column: number;
  /** The last line. */
  readonly endLine: number;
  /** The column after its last character. */
  readonly endColumn: number;
}

/** A finding of the type checker in a cell. */
export interface Diagnostic extends CellRange {
  /** The rule, such as `unknown-argument`. */
  readonly code: string;
  /** The first line of the message. */
  readonly message: string;
}

/** Longer than any message about a cell that is checked. */
const MAX_MESSAGE = 8 << 20;
const MAX_HEADER = 4096;
/** A server that does not answer in this time is stopped. */
const HUNG_MS = 10_000;
const MAX_VALUES = 200_000;
/** Nobody fixes more at a time, and each is compared with the whole cell. */
const MAX_DIAGNOSTICS = 100;
const MAX_TEXT = 4000;
/** Cells are small: more than this waits only if the server does not read. */
const MAX_UNREAD = 4 << 20;

/** Comments in code must not keep it from being checked. */
const SETTINGS = {
  diagnosticMode: "openFilesOnly",
  configuration: { analysis: { "respect-type-ignore-comments": false } },
};

const CHANGES = { created: 1, changed: 2, deleted: 3 } as const;

/** A file that the server may have read or looked for. */
export interface ChangedFile {
  readonly path: string;
  readonly change: keyof typeof CHANGES;
}

const message = z.object({
  id: z.union([z.number(), z.string()]).optional(),
  method: z.string().optional(),
  params: z.unknown().optional(),
  result: z.unknown().optional(),
  error: z.object({ message: z.string() }).optional(),
});

const position = z.object({ line: z.number().int().min(0), character: z.number().int().min(0) });

const diagnostics = z.object({
  items: z.array(z.object({
    range: z.object({ start: position, end: position }),
    code: z.string().catch(""),
    message: z.string(),
  })),
});

const configurationRequest = z.object({ items: z.array(z.unknown()).max(100) });

/**
 * A language server that checks the cells of a notebook.
 *
 * Its messages are not trusted: any violation of the protocol stops it.
 *
 * @see https://microsoft.github.io/language-server-protocol/
 */
export class LanguageServer implements Disposable {
  readonly #stream: ByteStream;
  readonly #notebook: string;
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>();
  readonly #end = new AbortController();
  /** Aborts when the server has ended, with the reason. */
  readonly ended: AbortSignal = this.#end.signal;
  readonly #cells: string[] = [];
  #writing: Promise<void> = Promise.resolve();
  #unread = 0;
  #requests = 0;
  #version = 1;
  #made = 0;

  private constructor(stream: ByteStream, folder: URL) {
    this.#stream = stream;
    this.#notebook = `${folder}cells.ipynb`;
    void this.#read();
  }

  /** Opens an empty notebook in a folder. Its cells can import only the modules there. */
  static async start(stream: ByteStream, folder: string): Promise<LanguageServer> {
    const root = toFileUrl(`${folder}/`);
    const server = new LanguageServer(stream, root);
    await server.#request("initialize", {
      processId: null,
      workspaceFolders: [{ uri: root.href, name: "stubs" }],
      capabilities: {
        general: { positionEncodings: ["utf-16"] },
        textDocument: { diagnostic: {} },
        notebookDocument: { synchronization: {} },
        workspace: { configuration: true },
      },
      initializationOptions: { ...SETTINGS, logLevel: "error" }, // its stderr is also the kernels'
    });
    server.#notify("initialized", {});
    server.#notify("notebookDocument/didOpen", {
      notebookDocument: {
        uri: server.#notebook,
        notebookType: "jupyter-notebook",
        version: 1,
        cells: [],
      },
      cellTextDocuments: [],
    });
    return server;
  }

  get size(): number {
    return this.#cells.length;
  }

  /** Adds a cell at the end. */
  append(text: string): void {
    const uri = `vscode-notebook-cell:/cells#${this.#made++}`;
    this.#change(this.#cells.length, 0, [uri], {
      didOpen: [{ uri, languageId: "python", version: 1, text }],
    });
    this.#cells.push(uri);
  }

  remove(index: number): void {
    const [uri] = this.#cells.splice(index, 1);
    if (uri !== undefined) this.#change(index, 1, [], { didClose: [{ uri }] });
  }

  /** Reports files that were created, changed or deleted. */
  filesChanged(files: readonly ChangedFile[]): void {
    if (files.length === 0) return;
    const changes = files.map(({ path, change }) => ({
      uri: toFileUrl(path).href,
      type: CHANGES[change],
    }));
    this.#notify("workspace/didChangeWatchedFiles", { changes });
  }

  /** Checks the last cell. */
  async diagnose(): Promise<Diagnostic[]> {
    const uri = this.#cells.at(-1);
    const answer = await this.#request("textDocument/diagnostic", { textDocument: { uri } });
    return diagnostics.parse(answer).items.slice(0, MAX_DIAGNOSTICS).map((
      { range: { start, end }, code, message },
    ) => ({
      line: start.line,
      column: start.character,
      endLine: end.line,
      endColumn: end.character,
      code,
      message: message.slice(0, MAX_TEXT).split("\n")[0] ?? "",
    }));
  }

  [Symbol.dispose](): void {
    this.#fail(new Error("The type checker was closed"));
  }

  #change(start: number, deleteCount: number, uris: readonly string[], documents: object): void {
    const cells = uris.map((document) => ({ kind: 2, document }));
    this.#notify("notebookDocument/didChange", {
      notebookDocument: { uri: this.#notebook, version: ++this.#version },
      change: { cells: { structure: { array: { start, deleteCount, cells }, ...documents } } },
    });
  }

  #request(method: string, params: unknown): Promise<unknown> {
    if (this.ended.aborted) return Promise.reject(this.ended.reason);
    const id = ++this.#requests;
    const answer = Promise.withResolvers<unknown>();
    answer.promise.catch(() => {}); // the caller may have stopped waiting
    this.#waiting.set(id, answer);
    this.#send({ id, method, params });
    settledWithin(answer.promise, HUNG_MS).then((settled) => {
      if (!settled) this.#fail(new Error("The type checker is not responding"));
    });
    return answer.promise;
  }

  #notify(method: string, params: unknown): void {
    this.#send({ method, params });
  }

  #send(content: object): void {
    const body = new TextEncoder().encode(JSON.stringify({ jsonrpc: "2.0", ...content }));
    const head = new TextEncoder().encode(`Content-Length: ${body.length}\r\n\r\n`);
    this.#unread += body.length;
    if (this.#unread > MAX_UNREAD) {
      return this.#fail(new Error("The type checker does not read what it asked for"));
    }
    this.#writing = this.#writing
      .then(() => this.#stream.write(head))
      .then(() => this.#stream.write(body))
      .then(() => void (this.#unread -= body.length))
      .catch((error: unknown) => this.#fail(error));
  }

  async #read(): Promise<void> {
    const received = new MessageReader();
    try {
      for await (const bytes of bytesOf(this.#stream)) {
        for (const body of received.push(bytes)) this.#receive(body);
      }
      this.#fail(new Error("The type checker ended"));
    } catch (error) {
      this.#fail(error);
    }
  }

  #receive(body: Uint8Array): void {
    checkJson(body, MAX_VALUES);
    const { id, method, params, result, error } = message.parse(
      JSON.parse(new TextDecoder().decode(body)),
    );
    if (method !== undefined) {
      if (id !== undefined) this.#send({ id, result: this.#answer(method, params) });
      return;
    }
    const waiting = typeof id === "number" ? this.#waiting.get(id) : undefined;
    if (waiting === undefined) return;
    this.#waiting.delete(Number(id));
    if (error === undefined) waiting.resolve(result);
    else waiting.reject(new Error(`The type checker failed: ${error.message}`));
  }

  /** Answers a request of the server: it may ask for its settings. */
  #answer(method: string, params: unknown): unknown {
    if (method !== "workspace/configuration") return null;
    return configurationRequest.parse(params).items.map(() => SETTINGS);
  }

  #fail(reason: unknown): void {
    if (this.ended.aborted) return;
    this.#end.abort(reason);
    this.#stream.close();
    for (const { reject } of this.#waiting.values()) reject(reason);
    this.#waiting.clear();
  }
}

/** Splits bytes into messages: header lines, an empty line, and as many bytes as the header says. */
class MessageReader {
  readonly #buffer = new ByteBuffer();

  *push(bytes: Uint8Array): Generator<Uint8Array, void, undefined> {
    this.#buffer.add(bytes);
    let rest = this.#buffer.take();
    for (;;) {
      const head = new TextDecoder("latin1").decode(rest.subarray(0, MAX_HEADER));
      const end = head.indexOf("\r\n\r\n");
      if (end < 0 && rest.length >= MAX_HEADER) {
        throw new Error("The type checker sent a malformed header");
      }
      if (end < 0) break;
      const length = Number(/^content-length: *(\d{1,10})$/im.exec(head.slice(0, end))?.[1]);
      if (!(length <= MAX_MESSAGE)) {
        throw new Error("The type checker sent a message that is too long");
      }
      const start = end + 4;
      if (rest.length < start + length) break;
      yield rest.subarray(start, start + length);
      rest = rest.subarray(start + length);
    }
    this.#buffer.add(rest);
  }
}
