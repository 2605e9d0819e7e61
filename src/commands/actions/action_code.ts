/** The code that checks and runs saved actions in a kernel, and its results. */
import { z } from "zod";
import type { Output } from "../../kernel/outputs.ts";

const MIME_TYPE = "application/vnd.ipybox.actions+json";

export function checkCode(names: readonly string[]): string {
  return call(`check(${literal(names)})`);
}

export const CHECK_TYPES: string = call("check_types()");

/** Runs an action with texts for its parameters, to be parsed by their types. */
export function runCode(name: string, texts: Readonly<Record<string, string>>): string {
  return call(`run(${JSON.stringify(name)}, ${literal(texts)})`);
}

/** Parses the problems of each action. */
export function checkedIn(outputs: readonly Output[]): Record<string, string[]> | undefined {
  return problems.safeParse(sentIn(outputs)).data;
}

/** A problem that the type checker found. */
export interface TypeProblem {
  /** The file, relative to the workspace. */
  readonly file: string;
  /** The line, from 1. */
  readonly line: number;
  readonly message: string;
}

/** Parses the type checker's report; `null` if it is not installed. */
export function typeProblemsIn(
  outputs: readonly Output[],
): readonly TypeProblem[] | null | undefined {
  const report = types.safeParse(sentIn(outputs)).data?.report;
  return report && report.filter(({ severity }) => severity === "major")
    .map(({ location, description }) => ({
      file: location.path,
      line: location.positions.begin.line,
      message: /^(?:[\w-]+: )?(.*)/.exec(description)?.[1] ?? "", // without the rule's name
    }));
}

/** Parses an action's result. */
export function resultIn(outputs: readonly Output[]): unknown {
  return outcome.safeParse(sentIn(outputs)).data?.result;
}

const problems = z.record(z.string(), z.array(z.string()));
const outcome = z.object({ result: z.unknown() });
/** ty's JSON output, a GitLab Code Quality report. */
const types = z.object({
  report: z.array(z.object({
    description: z.string(),
    severity: z.string(),
    location: z.object({
      path: z.string(),
      positions: z.object({ begin: z.object({ line: z.number() }) }),
    }),
  })).nullable(),
});

/** Creates an expression, so that the user's namespace is unchanged. */
function call(expression: string): string {
  return `__import__("ipybox_runtime.actions").actions.${expression};`;
}

/** A value as a Python expression: a quoted JSON string is also a quoted Python string. */
function literal(value: unknown): string {
  return `__import__("json").loads(${JSON.stringify(JSON.stringify(value))})`;
}

function sentIn(outputs: readonly Output[]): unknown {
  const last = outputs.findLast((output) =>
    output.type === "display_data" && MIME_TYPE in output.data
  );
  return last?.type === "display_data" ? last.data[MIME_TYPE] : undefined;
}
