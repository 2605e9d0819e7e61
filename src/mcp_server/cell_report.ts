/** The result of a cell for the client: text and images. */
import { basename } from "node:path";
import {
  CodeExecutionError,
  ExecutionTimeoutError,
  KernelDiedError,
  NO_OUTPUT,
  type PartialResult,
  SessionTakenError,
} from "../base/errors.ts";
import { messageOf } from "../base/message_of.ts";
import { readHostileBytes } from "../files/safe.ts";
import type { OutputImage } from "../kernel/outputs.ts";
import { isLowSurrogate } from "../kernel/text.ts";
import { missingServer } from "../kernel/traceback.ts";
import type { CellOutcome, CellRun } from "./cell_run.ts";
import { success } from "./failure.ts";
import { type Artifact, type Artifacts, inlineImage } from "./images.ts";
import type { CallToolResult, ContentBlock } from "./sdk.ts";

/** The parts of a session that are needed to report on its cells. */
export interface ReportingSession {
  readonly artifacts: Artifacts;
  saveOutput(whole: string | { readonly text: string }): Promise<Artifact | undefined>;
}

/** Reports that a cell is still running. */
export function reportRunning(cell: CellRun): CallToolResult {
  return success(`${cell.runningText}\nGet its result with wait_for_cell, cell "${cell.id}"`);
}

/** Reports the end of a cell, once: it may be waited for several times. */
export async function reportCell(
  outcome: CellOutcome,
  session: ReportingSession,
  limit: number,
): Promise<CallToolResult> {
  return await reports.getOrInsertComputed(outcome, () => report(outcome, session, limit));
}

const reports = new WeakMap<CellOutcome, Promise<CallToolResult>>();

async function report(
  outcome: CellOutcome,
  session: ReportingSession,
  limit: number,
): Promise<CallToolResult> {
  const error = "error" in outcome.end ? outcome.end.error : undefined;
  const failed = "error" in outcome.end ? failureOf(outcome, error) : undefined;
  const partial = failed?.partial ?? ("result" in outcome.end ? outcome.end.result : NO_OUTPUT);
  // The message counts, too, but takes at most half of the room.
  const message = truncateMiddle(failed?.message ?? "", Math.ceil(limit / 2)).text;
  const room = message === "" ? limit : Math.max(limit - message.length, Math.floor(limit / 2));
  const chars = partial.wholeText?.characters ?? partial.text?.length ?? 0;
  const { text, omitted } = truncateMiddle(partial.text ?? "", room, chars);
  const output = omitted === 0
    ? undefined
    : await session.saveOutput(partial.wholeText?.path ?? { text: partial.text ?? "" });
  const images = await reportImages(partial.images, session);

  const where = output === undefined ? "" : `[Full output: ${output.path} (${output.uri})]`;
  const { calls, notes } = outcome;
  const words = [text, where, message, calls.failures, imageList(images), notes.join("\n")]
    .filter((part) => part !== "");
  const blocks = images.flatMap(({ block }) => block === undefined ? [] : [block]);
  const result = success(words.join("\n\n"), blocks);
  // An exception of the code is its result: the tool has done its work.
  const isError = failed !== undefined && !(error instanceof CodeExecutionError);
  return isError ? { ...result, isError } : result;
}

interface Failure {
  readonly message: string;
  readonly partial: PartialResult;
}

function failureOf(outcome: CellOutcome, error: unknown): Failure {
  const isLost = outcome.state === "lost";
  const state = isLost ? "The kernel was restarted: variables are lost" : "Variables were kept";
  if (error instanceof CodeExecutionError) {
    const message = (error.traceback || error.message) + serverAdvice(error);
    return { message, partial: error };
  }
  if (error instanceof ExecutionTimeoutError) {
    const help = "Use a larger timeout, or do less in one cell";
    return { message: `${error.message}. ${state}. ${help}`, partial: error };
  }
  if (error instanceof KernelDiedError) {
    const next = error instanceof SessionTakenError
      ? ", or restart this MCP server"
      : "\nThe next cell runs in a fresh kernel: variables are lost";
    return { message: error.message + next, partial: error };
  }
  const partial = { ...NO_OUTPUT, text: outcome.lastText || null };
  return outcome.cancelled
    ? { message: `The cell was cancelled. ${state}`, partial }
    : { message: messageOf(error), partial };
}

/** The fix for a missing server that a model can apply. */
function serverAdvice(error: CodeExecutionError): string {
  const server = missingServer(error);
  return server === undefined ? "" : `\n${server}: see search_tools`;
}

/** More would bury the rest of the result. */
const MAX_LISTED = 50;
/** The limits on a cell's inline images together: clients limit the size of tool results. */
const MAX_IMAGES = 8;
const MAX_IMAGE_BYTES = 3 * 2 ** 20;
/** The largest image file that is read. */
const MAX_IMAGE_FILE_BYTES = 32 * 2 ** 20;
/** The time limit for decoding large images, for all of them together. */
const MAX_SCALING_MS = 2000;

interface ReportedImage {
  readonly artifact: Artifact;
  /** The image as content, if clients can show it and it fits. */
  readonly block: ContentBlock | undefined;
}

async function reportImages(
  found: readonly Pick<OutputImage, "path" | "mimeType">[],
  session: ReportingSession,
): Promise<readonly ReportedImage[]> {
  if (found.length === 0) return [];
  const images: ReportedImage[] = [];
  let room = MAX_IMAGE_BYTES;
  let shown = 0;
  const start = performance.now();
  for (const { path, mimeType } of found) {
    const artifact = session.artifacts.add("images", path, "Image of a cell");
    const isPicture = mimeType === "image/png" || mimeType === "image/jpeg";
    // Executed code may have replaced the file since.
    const bytes = isPicture && shown < MAX_IMAGES && room > 0 &&
        performance.now() - start < MAX_SCALING_MS
      ? await readHostileBytes(path, MAX_IMAGE_FILE_BYTES)
      : undefined;
    const image = bytes === undefined ? undefined : await inlineImage(bytes, room);
    if (image === undefined) {
      images.push({ artifact, block: undefined });
      continue;
    }
    shown++;
    room -= image.bytes.length;
    const block: ContentBlock = {
      type: "image",
      mimeType: image.mimeType,
      data: image.bytes.toBase64(),
    };
    images.push({ artifact, block });
  }
  return images;
}

function imageList(images: readonly ReportedImage[]): string {
  if (images.length === 0) return "";
  const lines = images.slice(0, MAX_LISTED).map(({ artifact: { shownPath }, block }) => {
    const name = basename(shownPath).replace(/\.\w+$/, "");
    return `- [${name}](${shownPath})${block === undefined ? " (not shown here)" : ""}`;
  });
  const rest = images.length - lines.length;
  if (rest > 0) lines.push(`- and ${rest} more`);
  return `Generated images:\n\n${lines.join("\n")}`;
}

/** A text within a limit. */
interface Truncated {
  /** The text, or its head and tail around a line that says how much was omitted. */
  readonly text: string;
  /** How many characters were omitted. */
  readonly omitted: number;
}

/** Cuts a long text in the middle: its beginning says what it is, and results are at its end. */
export function truncateMiddle(
  text: string,
  limit: number,
  whole: number = text.length,
): Truncated {
  if (text.length <= limit) return { text, omitted: 0 };
  let head = Math.ceil(limit / 2);
  let tail = text.length - Math.floor(limit / 2);
  if (isLowSurrogate(text, head)) head--; // the other half goes, too
  if (isLowSurrogate(text, tail)) tail++;
  const omitted = whole - (head + text.length - tail);
  const note = `[Output truncated: exceeded ${limit} character limit, ` +
    `${omitted} of ${whole} characters omitted here]`;
  return { text: `${text.slice(0, head)}\n\n${note}\n\n${text.slice(tail)}`, omitted };
}
