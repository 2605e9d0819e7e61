/**
 * What became of a cell, for the client: text and images, and the same as data.
 *
 * @module
 */
import { basename } from "node:path";
import { z } from "zod";
import { visible } from "../approval/call_text.ts";
import {
  CodeExecutionError,
  ExecutionTimeoutError,
  KernelDiedError,
  type PartialResult,
  SessionTakenError,
} from "../base/errors.ts";
import { messageOf } from "../base/message_of.ts";
import { readHostileBytes } from "../files/safe.ts";
import { missingModule, missingServer } from "../kernel/traceback.ts";
import { callRecordSchema } from "./call_records.ts";
import type { CellOutcome, CellRun } from "./cell_run.ts";
import { type Artifact, inlineImage } from "./images.ts";
import { shownActivity } from "./request_progress.ts";
import type { CallToolResult, ContentBlock } from "./sdk.ts";
import type { Session } from "./session.ts";

/** What `execute_ipython_cell` gives as data. */
export const cellReportSchema = z.object({
  cell: z.string().nullable().describe("The ID for wait_for_cell, if it still runs"),
  status: z.enum(["ok", "error", "timeout", "cancelled", "died", "running"]),
  text: z.string().describe("The cell's output and last value, within max_output_chars"),
  omitted_chars: z.number().describe("How many characters were cut from text"),
  output: z.object({ uri: z.string(), path: z.string(), chars: z.number() }).nullable()
    .describe("The full text, if something was cut"),
  images: z.array(z.object({
    uri: z.string(),
    path: z.string(),
    mime_type: z.string(),
    inline: z.boolean().describe("Whether it is also in the content, perhaps scaled down"),
  })),
  tool_calls: z.array(callRecordSchema).describe("The first calls"),
  tool_call_count: z.number(),
  duration_ms: z.number(),
  error: z.object({ name: z.string(), message: z.string(), traceback: z.string() }).nullable(),
  state: z.enum(["kept", "lost"]).describe("Whether variables were kept"),
});

/** Reports that a cell goes on without its client. */
export function reportRunning(cell: CellRun, session: Session): CallToolResult {
  const text = `Cell ${cell.id} still runs (${shownActivity(cell)}). Get its result with ` +
    `wait_for_cell, cell "${cell.id}"`;
  const report: CellReport = {
    status: "running",
    cell: cell.id,
    text: "",
    omitted_chars: 0,
    output: null,
    images: [],
    tool_calls: cell.calls.first,
    tool_call_count: cell.calls.count,
    duration_ms: Math.round(cell.durationMs),
    error: null,
    state: "kept",
  };
  return session.answers.of({ text, report });
}

type CellReport = z.infer<typeof cellReportSchema>;

/** Reports a cell's end. */
export async function reportCell(
  outcome: CellOutcome,
  session: Session,
  limit: number,
): Promise<CallToolResult> {
  const failed = "error" in outcome.end ? failureOf(outcome, outcome.end.error) : undefined;
  const partial = failed?.partial ?? ("result" in outcome.end ? outcome.end.result : NOTHING);
  // The message counts too, but not at the cost of all output: half of the room is its own.
  const message = truncateMiddle(failed?.message ?? "", Math.ceil(limit / 2)).text;
  const room = message === "" ? limit : Math.max(limit - message.length, Math.floor(limit / 2));
  const chars = partial.wholeText?.characters ?? partial.text?.length ?? 0;
  const { text, omitted } = truncateMiddle(partial.text ?? "", room, chars);
  const output = omitted === 0 ? undefined : await saveOutput(partial, session);
  const images = await reportImages(partial.images, session);

  const where = output === undefined ? "" : `[Full output: ${output.path} (${output.uri})]`;
  const { calls, notes } = outcome;
  const words = [text, where, message, calls.failures, imageList(images), notes.join("\n")]
    .filter((part) => part !== "");
  const report: CellReport = {
    cell: null,
    status: failed?.status ?? "ok",
    text,
    omitted_chars: omitted,
    output: output === undefined ? null : { uri: output.uri, path: output.path, chars },
    images: images.slice(0, MAX_LISTED).map(({ artifact: { uri, path, mimeType }, block }) => ({
      uri,
      path,
      mime_type: mimeType,
      inline: block !== undefined,
    })),
    tool_calls: outcome.calls.first,
    tool_call_count: outcome.calls.count,
    duration_ms: Math.round(outcome.durationMs),
    error: failed === undefined ? null : failed.error(message),
    state: outcome.state,
  };
  return session.answers.of({
    text: words.join("\n\n"),
    images: images.flatMap(({ block }) => block === undefined ? [] : [block]),
    report,
    // What the code raised is what it gave: the tool has done what it was asked for.
    isError: failed !== undefined && !failed.isRaised,
  });
}

const NOTHING: PartialResult = { text: null, images: [], outputs: [] };

interface Failure {
  readonly status: CellReport["status"];
  /** Whether the code raised it. */
  readonly isRaised: boolean;
  /** What is said of it. */
  readonly message: string;
  readonly partial: PartialResult;
  /** The same as data. */
  error(message: string): NonNullable<CellReport["error"]>;
}

function failureOf(outcome: CellOutcome, error: unknown): Failure {
  const isLost = outcome.state === "lost";
  const state = isLost ? "The kernel was restarted: variables are lost" : "Variables were kept";
  const plain = (
    status: CellReport["status"],
    message: string,
    partial: PartialResult,
  ): Failure => ({
    status,
    isRaised: false,
    message,
    partial,
    error: (shown) => ({
      name: error instanceof Error ? error.name : "Error",
      message: shown,
      traceback: "",
    }),
  });
  if (error instanceof CodeExecutionError) {
    return {
      status: "error",
      isRaised: true,
      message: (error.traceback || error.message) + moduleAdvice(error),
      partial: error,
      error: (traceback) => ({
        name: error.ename,
        message: truncateMiddle(error.evalue, MAX_EVALUE).text,
        traceback,
      }),
    };
  }
  if (error instanceof ExecutionTimeoutError) {
    const help = "Use a larger timeout, or do less in one cell";
    return plain("timeout", `${error.message}. ${state}. ${help}`, error);
  }
  if (error instanceof SessionTakenError) {
    return plain("died", `${error.message}, or restart this MCP server`, error);
  }
  if (error instanceof KernelDiedError) {
    const next = "The next cell runs in a fresh kernel: variables are lost";
    return plain("died", `${error.message}\n${next}`, error);
  }
  const last = { ...NOTHING, text: outcome.lastText || null };
  if (outcome.cancelled) return plain("cancelled", `The cell was cancelled. ${state}`, last);
  return plain("error", messageOf(error), last);
}

/** What a model can do about a module that is missing. */
function moduleAdvice(error: CodeExecutionError): string {
  const [module, server] = [missingModule(error), missingServer(error)];
  if (module !== undefined) {
    return `\n[ipybox] To install it: install_package with package_name "${module}"`;
  }
  return server === undefined ? "" : `\n${server}: see search_tools`;
}

const MAX_EVALUE = 1000;
/** More would drown what else there is. */
const MAX_LISTED = 50;
/** The images of one cell that are sent, together: clients bound what a tool may return. */
const MAX_IMAGES = 8;
const MAX_IMAGE_BYTES = 3 * 2 ** 20;
/** The largest image file that is looked at. */
const MAX_IMAGE_FILE_BYTES = 32 * 2 ** 20;
/** Larger files have to be decoded, all of them within this time. */
const MAX_SCALING_MS = 2000;

/** Where whole outputs went: a cell may be waited for several times. */
const saved = new WeakMap<PartialResult, Promise<Artifact | undefined>>();

async function saveOutput(partial: PartialResult, session: Session): Promise<Artifact | undefined> {
  const { text, wholeText } = partial;
  return await saved.getOrInsertComputed(
    partial,
    () => session.saveOutput(wholeText?.path ?? { text: text ?? "" }),
  );
}

interface ReportedImage {
  readonly artifact: Artifact;
  /** It as content, if it is one of those that clients can show, and as far as they fit. */
  readonly block: ContentBlock | undefined;
}

async function reportImages(
  paths: readonly string[],
  session: Session,
): Promise<ReportedImage[]> {
  const images: ReportedImage[] = [];
  let room = MAX_IMAGE_BYTES;
  let shown = 0;
  const start = performance.now();
  for (const path of paths) {
    const artifact = session.artifacts.add("images", path, "Image of a cell");
    const isPicture = artifact.mimeType === "image/png" || artifact.mimeType === "image/jpeg";
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
    const { mimeType } = image;
    const block: ContentBlock = { type: "image", mimeType, data: image.bytes.toBase64() };
    images.push({ artifact, block });
  }
  return images;
}

function imageList(images: readonly ReportedImage[]): string {
  if (images.length === 0) return "";
  const lines = images.slice(0, MAX_LISTED).map(({ artifact: { path }, block }) => {
    const name = basename(path).replace(/\.\w+$/, "");
    return `- [${name}](${path})${block === undefined ? " (not shown here)" : ""}`;
  });
  const rest = images.length - lines.length;
  if (rest > 0) lines.push(`- and ${rest} more`);
  return `Generated images:\n\n${lines.join("\n")}`;
}

/** A text within a limit, and what was left out of it. */
interface Truncated {
  /** The text, or its head and tail around a line that says how much was left out. */
  readonly text: string;
  /** How many characters were left out. */
  readonly omitted: number;
}

/**
 * Cuts a long text in the middle, so that both its beginning and its end are kept.
 *
 * The end is where results and exceptions stand, the beginning says what the text is.
 */
export function truncateMiddle(
  text: string,
  limit: number,
  whole: number = text.length,
): Truncated {
  if (text.length <= limit) return { text, omitted: 0 };
  const head = wholeUntil(text, Math.ceil(limit / 2));
  const tail = wholeFrom(text, text.length - Math.floor(limit / 2));
  const omitted = whole - (head + text.length - tail);
  const note = `[Output truncated: exceeded ${limit} character limit, ` +
    `${omitted} of ${whole} characters omitted here]`;
  return { text: `${text.slice(0, head)}\n\n${note}\n\n${text.slice(tail)}`, omitted };
}

/** The last cut at or before `index` that splits no surrogate pair. */
function wholeUntil(text: string, index: number): number {
  return isLowSurrogate(text, index) ? index - 1 : index;
}

/** The first cut at or after `index` that splits no surrogate pair. */
function wholeFrom(text: string, index: number): number {
  return isLowSurrogate(text, index) ? index + 1 : index;
}

function isLowSurrogate(text: string, index: number): boolean {
  const code = text.charCodeAt(index);
  return code >= 0xdc00 && code <= 0xdfff;
}

/**
 * Shows what code or a server wrote within a text for a person, so that it cannot pass for ours, and
 * with nothing in it hidden.
 *
 * Each line begins with four spaces and a mark. Markdown takes that for a block of code, shown as it
 * is: comments, links and quotes in it mean nothing, and nothing in it can end the block.
 */
export function foreignBlock(lines: readonly string[]): string {
  return lines.map((line) => `    | ${visible(line)}`).join("\n");
}
