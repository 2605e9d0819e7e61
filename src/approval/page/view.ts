/**
 * The JSON from which pages show requests. A call's arguments are a tree in which numbers keep
 * their spelling, and old and new text are a diff: pages neither parse JSON nor compare texts.
 *
 * @module
 */
import { type ExactJson, isExactObject, isRawNumber, parseExact } from "../../json/exact.ts";
import { shortened } from "../call_text.ts";
import { type DiffLine, lineDiff, withEdits } from "../edits.ts";
import { ElicitationRequest } from "../questions.ts";
import { callJson, type PersonRequest, questionJson } from "../wire.ts";

/** A value, its parts, or the original spelling of a number that a double would change. */
export type ShownValue =
  | string
  | number
  | boolean
  | null
  | { readonly raw: string }
  | { readonly items: readonly ShownValue[] }
  | { readonly entries: readonly ShownEntry[] };

/** A member of an object, or old and new text with their names in it. */
type ShownEntry =
  | readonly [name: string, value: ShownValue]
  | { readonly before: string; readonly after: string; readonly lines: readonly DiffLine[] };

export function shownValue(value: ExactJson): ShownValue {
  if (typeof value !== "object" || value === null) return value;
  if (isRawNumber(value)) return { raw: value.rawJSON };
  if (!isExactObject(value)) return { items: value.map(shownValue) };
  return {
    entries: withEdits(value).map((entry): ShownEntry => {
      if (!("before" in entry)) return [entry[0], shownValue(entry[1])];
      const { before: [before, old], after: [after, now] } = entry;
      return { before, after, lines: lineDiff(old, now) };
    }),
  };
}

/** The most characters of a request in a list of them. */
const MAX_EXCERPT = 120;

export function excerptOf(text: string): string {
  return shortened(text, MAX_EXCERPT);
}

/** A request as JSON text. */
export function viewOf(request: PersonRequest, since: Date): string {
  const [asked, text] = request instanceof ElicitationRequest
    ? [{ kind: "elicitation", ...questionJson(request) }, request.question.message]
    : [
      callJson(request, shownValue(parseExact(request.argumentsJson))),
      request.argumentsJson,
    ];
  return JSON.stringify({
    id: request.id,
    ...asked,
    excerpt: excerptOf(text),
    asked_at: since.getTime(),
  });
}
