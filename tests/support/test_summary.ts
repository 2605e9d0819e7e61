import { SKIPPED } from "./skip.ts";

/** What a test run came to. */
export interface TestSummary {
  readonly passed: number;
  readonly failed: number;
  /** The tests that were left out. */
  readonly skipped: readonly SkippedTest[];
}

/** A test that was left out. */
export interface SkippedTest {
  readonly name: string;
  /** Why, or `undefined` when nobody says. */
  readonly reason: string | undefined;
}

/**
 * Counts a run of `deno test`.
 *
 * @param output What it wrote to stdout. Its last line counts tests, and modules that failed to load,
 * which the JUnit report leaves out.
 * @param junit Its JUnit report, which names the tests that were left out.
 * @param success Whether it exited with 0.
 * @returns The counts. A run that did not end well has at least one failure.
 */
export function summarize(output: string, junit: string, success: boolean): TestSummary {
  const last = [...withoutColor(output).matchAll(SUMMARY)].at(-1);
  const filtered = last?.[3] !== undefined;
  const skipped = [...junit.matchAll(/<testcase name="([^"]*)"[^>]*>\s*<skipped/g)]
    .map(([, name = ""]) => skippedTest(unescape(name)))
    // The report does not tell what a filter left out from what was to be ignored.
    .filter(({ reason }) => reason !== undefined || !filtered);
  const passed = Number(last?.[1] ?? 0);
  const failed = Number(last?.[2] ?? 0) +
    skipped.filter(({ reason }) => reason === undefined).length;
  return { passed, failed: success ? failed : Math.max(failed, 1), skipped };
}

/** The counts of several runs together. */
export function total(summaries: readonly TestSummary[]): TestSummary {
  return {
    passed: summaries.reduce((sum, { passed }) => sum + passed, 0),
    failed: summaries.reduce((sum, { failed }) => sum + failed, 0),
    skipped: summaries.flatMap(({ skipped }) => skipped),
  };
}

/** The closing line of a run. */
export function closingLine({ passed, failed, skipped }: TestSummary): string {
  return `${passed} passed, ${failed} failed, ${skipped.length} skipped`;
}

const SUMMARY =
  /^(?:ok|FAILED) \| (\d+) passed(?: \(\d+ steps?\))? \| (\d+) failed(?:.* \| (\d+) filtered out)?/gm;

function skippedTest(title: string): SkippedTest {
  const start = title.lastIndexOf(SKIPPED);
  if (start === -1 || !title.endsWith("]")) return { name: title, reason: undefined };
  return { name: title.slice(0, start).trim(), reason: title.slice(start + SKIPPED.length, -1) };
}

function withoutColor(text: string): string {
  // deno-lint-ignore no-control-regex -- that is what colours are made of
  return text.replace(/\x1b\[[0-9;]*m/g, "");
}

function unescape(xml: string): string {
  const characters: Record<string, string> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };
  return xml.replace(/&(lt|gt|quot|apos|amp);/g, (_, name: string) => characters[name] ?? "");
}
