/**
 * What is wrong with a message, in one line.
 *
 * @module
 */
import type { z } from "zod";

/** How much of a server's own words is repeated. */
const LONGEST = 300;

/** The first of the problems that a check found. */
export function problemOf(error: z.ZodError): string {
  return described(error.issues);
}

/** An error's message in one line. The SDK puts all that Zod finds into its messages, as JSON. */
export function messageOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  const start = message.search(/\[\s*\{/);
  if (start >= 0) {
    const issues = parsed(message.slice(start));
    if (issues !== undefined) return shortened(message.slice(0, start) + described(issues));
  }
  return shortened(message);
}

interface Issue {
  readonly path?: readonly PropertyKey[];
  readonly message?: string;
}

function parsed(text: string): readonly Issue[] | undefined {
  try {
    const value: unknown = JSON.parse(text);
    const isIssues = Array.isArray(value) && value.length > 0 &&
      value.every((issue) => typeof issue?.message === "string" && Array.isArray(issue.path));
    return isIssues ? value : undefined;
  } catch {
    return undefined; // it is part of a sentence
  }
}

function described(issues: readonly Issue[]): string {
  const [{ path = [], message = "" } = {}] = issues;
  const others = issues.length > 1 ? ` (and ${issues.length - 1} more)` : "";
  const where = path.map(String).join("/");
  return shortened(`${where === "" ? "" : `${where}: `}${message}`) + others;
}

function shortened(text: string): string {
  const line = text.replaceAll(/\s+/g, " ").trim();
  return line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line;
}
