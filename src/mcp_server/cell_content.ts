/**
 * What became of a cell, as content for the client.
 *
 * @module
 */
import { basename } from "node:path";
import {
  CodeExecutionError,
  ExecutionTimeoutError,
  KernelDiedError,
  type PartialResult,
} from "../errors.ts";
import { readHostileBytes } from "../mcp/hostile_files.ts";
import type { CellOutcome } from "./cell_run.ts";
import type { CallToolResult, ContentBlock } from "./sdk.ts";
import { truncateMiddle } from "./truncate.ts";

/** The images of one cell that are sent, together: clients bound what a tool may return. */
const MAX_IMAGE_BYTES = 3 * 2 ** 20;

/**
 * The content for a cell's end.
 *
 * @param outcome Its result or its error.
 * @param limit The most characters of text.
 * @returns Text and images; `isError` where the code failed.
 */
export async function outcomeContent(outcome: CellOutcome, limit: number): Promise<CallToolResult> {
  if ("result" in outcome) return { content: await cellContent(outcome.result, "", limit) };
  const { error } = outcome;
  const [partial, message] = explain(error);
  return { isError: true, content: await cellContent(partial, message, limit) };
}

/** A failed tool call. */
export function failure(text: string): CallToolResult {
  return { isError: true, content: [{ type: "text", text }] };
}

const NOTHING: PartialResult = { text: null, images: [], outputs: [] };

function explain(error: unknown): [PartialResult, string] {
  if (error instanceof CodeExecutionError) return [error, error.traceback || error.message];
  if (error instanceof ExecutionTimeoutError) {
    const state = error.state === "kept"
      ? "Variables were kept"
      : "The kernel was restarted: variables are lost";
    return [error, `${error.message}. ${state}`];
  }
  if (error instanceof KernelDiedError) {
    return [error, `${error.message}\nThe next cell runs in a fresh kernel: variables are lost`];
  }
  return [NOTHING, error instanceof Error ? error.message : String(error)];
}

async function cellContent(
  result: PartialResult,
  message: string,
  limit: number,
): Promise<ContentBlock[]> {
  // The message counts too, but not at the cost of all output: half of the room is its own.
  const shortMessage = truncateMiddle(message, Math.ceil(limit / 2));
  const room = Math.max(limit - shortMessage.length, Math.floor(limit / 2));
  const output = truncateMiddle(result.text ?? "", message === "" ? limit : room);
  const images = await imageBlocks(result.images);
  const text = [output, shortMessage, imageList(result.images)].filter((part) => part !== "")
    .join("\n\n");
  return [{ type: "text", text }, ...images];
}

function imageList(images: readonly string[]): string {
  if (images.length === 0) return "";
  const lines = images.map((path) => `- [${basename(path).replace(/\.\w+$/, "")}](${path})`);
  return `Generated images:\n\n${lines.join("\n")}`;
}

const MIME_TYPES: Readonly<Record<string, string>> = { png: "image/png", jpg: "image/jpeg" };

/** The images that clients can show, as far as they fit. */
async function imageBlocks(images: readonly string[]): Promise<ContentBlock[]> {
  const blocks: ContentBlock[] = [];
  let room = MAX_IMAGE_BYTES;
  for (const path of images) {
    const mimeType = MIME_TYPES[path.split(".").at(-1) ?? ""];
    if (mimeType === undefined) continue;
    // Executed code may have replaced the file since: never through a link, never beyond the room.
    const bytes = await readHostileBytes(path, room);
    if (bytes === undefined) continue;
    room -= bytes.length;
    blocks.push({ type: "image", mimeType, data: bytes.toBase64() });
  }
  return blocks;
}
