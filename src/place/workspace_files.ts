import { z } from "zod";
import { inBlocks, joinBytes } from "../base/bytes.ts";
import { onAbort } from "../base/signals.ts";
import type { ByteStream } from "../base/streams.ts";

/**
 * A path cannot be used: it does not exist, is not a plain file, is closed to code, or there is no
 * answer.
 */
export class PathError extends Error {
  override readonly name: string = "PathError";

  constructor(readonly reason: "missing" | "refused" | "unanswered", message: string) {
    super(message);
  }
}

/** An entry of a folder. */
export interface Entry {
  readonly name: string;
  /** `"other"` stands for pipes, sockets and devices. */
  readonly type: "file" | "folder" | "link" | "other";
  /** Its size in bytes; 0 if it is not a file. */
  readonly size: number;
  /** When it was modified, such as `2026-03-01T14:03:21.000Z`. */
  readonly modified: string;
}

/** The limit on a list's entries, as in the program that makes it. */
const MAX_ENTRIES = 10_000;

/** Splits a relative path and checks its parts. */
export function pathParts(path: string): string[] {
  const parts = path.split("/");
  const bad = parts.some((part) =>
    part === "" || part === "." || part === ".." || part.includes("\0")
  );
  if (!bad && path.length <= 4000) return parts;
  throw new PathError("refused", `Cannot use the path ${JSON.stringify(path.slice(0, 200))}`);
}

const answerSchema = z.object({
  error: z.string().max(4096).nullable(),
  missing: z.boolean(),
  /** How many bytes follow. */
  size: z.number().int().min(0),
});

const entriesSchema: z.ZodType<Entry[]> = z.array(z.object({
  name: z.string().max(4096),
  type: z.enum(["file", "folder", "link", "other"]),
  size: z.number().min(0),
  /** In seconds since 1970. */
  modified: z.number().min(-8.64e12).max(8.64e12).catch(0) // code can set an invalid one
    .transform((seconds) => new Date(seconds * 1000).toISOString()),
})).max(MAX_ENTRIES);

/** How many bytes to send at once, because clients may send byte by byte. */
const BLOCK = 1 << 16;
const NEWLINE = 10;
const MAX_LINE = 1 << 14;
/** The longest list, in bytes: names have up to 255 bytes, and JSON may need six for each. */
const MAX_LIST = MAX_ENTRIES * 2048;

/** The files of a workspace, as code sees them: through programs that the launcher starts beside it. */
export class WorkspaceFiles {
  readonly #open: () => ByteStream | undefined;

  /** @param open Starts such a program; `undefined` if the session has ended. */
  constructor(open: () => ByteStream | undefined) {
    this.#open = open;
  }

  async read(parts: readonly string[]): Promise<ReadableStream<Uint8Array>> {
    const { stream, answer } = await this.#ask(parts, "read");
    return bytesOf(stream, answer);
  }

  /** Lists a folder, in no particular order. */
  async list(parts: readonly string[]): Promise<Entry[]> {
    const { stream, answer } = await this.#ask(parts, "list");
    try {
      if (answer.size > MAX_LIST) throw new Error(`${answer.path} has too long a list`);
      return entriesSchema.parse(await new Response(bytesOf(stream, answer)).json());
    } finally {
      stream.close();
    }
  }

  /** Writes a file, completely or not at all, and creates its folders. */
  async write(parts: readonly string[], bytes: AsyncIterable<Uint8Array>): Promise<void> {
    (await this.#ask(parts, "write", { data: inBlocks(bytes, BLOCK) })).stream.close();
  }

  /** Replaces a folder, by its path there, with one that has the text files of an archive. */
  async replaceFolder(path: string, archive: Uint8Array, signal: AbortSignal): Promise<void> {
    (await this.#ask([path], "replace", { data: [archive], signal })).stream.close();
  }

  /** Sends an order, with the data for it, and reads the answer. */
  async #ask(
    parts: readonly string[],
    does: "read" | "write" | "list" | "replace",
    { data, signal }: {
      readonly data?: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
      readonly signal?: AbortSignal;
    } = {},
  ): Promise<{ readonly stream: ByteStream; readonly answer: Following }> {
    const stream = this.#open();
    if (stream === undefined) {
      throw new PathError(
        "unanswered",
        `Cannot reach ${parts.join("/")}: the session's kernel is not running`,
      );
    }
    using _abort = onAbort(signal, () => stream.close());
    try {
      await stream.write(new TextEncoder().encode(JSON.stringify({ parts, does }) + "\n"));
      if (data !== undefined) {
        for await (const block of data) await stream.write(block);
        await stream.end();
      }
      return { stream, answer: await answerOf(stream, parts) };
    } catch (error) {
      stream.close();
      throw error;
    }
  }
}

/** The data after the answer's first line. */
interface Following {
  readonly path: string;
  readonly size: number;
  /** The part that has already arrived. */
  readonly first: Uint8Array;
}

async function answerOf(stream: ByteStream, parts: readonly string[]): Promise<Following> {
  const path = parts.join("/");
  let bytes = new Uint8Array(0);
  let end: number;
  while ((end = bytes.indexOf(NEWLINE)) < 0) {
    const next = await stream.read();
    if (next === null || bytes.length > MAX_LINE) {
      throw new PathError("unanswered", `${path} cannot be used: no answer came from its machine`);
    }
    bytes = joinBytes(bytes, next);
  }
  const { error, missing, size } = answerSchema.parse(
    JSON.parse(new TextDecoder().decode(bytes.subarray(0, end))),
  );
  if (error === null) return { path, size, first: bytes.subarray(end + 1) };
  throw new PathError(missing ? "missing" : "refused", `${path} cannot be used: ${error}`);
}

/** Streams the data: all of it, or an error. */
function bytesOf(
  stream: ByteStream,
  { path, size, first }: Following,
): ReadableStream<Uint8Array> {
  let left = size - first.length;
  return new ReadableStream<Uint8Array>({
    start: (controller) => {
      if (first.length > 0) controller.enqueue(first.slice());
    },
    pull: async (controller) => {
      const bytes = await stream.read();
      left -= bytes?.length ?? 0;
      if (left < 0 || (bytes === null && left > 0)) {
        stream.close();
        throw new Error(`${path} changed its size while it was read`);
      }
      if (bytes !== null) return controller.enqueue(bytes.slice());
      stream.close();
      controller.close();
    },
    cancel: () => stream.close(),
  }, { highWaterMark: 0 });
}
