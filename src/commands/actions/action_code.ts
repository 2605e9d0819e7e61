/**
 * The code that works with saved actions in a kernel, and what comes back.
 *
 * @module
 */
import { z } from "zod";
import type { Output } from "../../kernel/outputs.ts";

const MIME_TYPE = "application/vnd.ipybox.actions+json";

/** The code that checks saved actions. */
export function checkCode(names: readonly string[]): string {
  return call(`check(${literal(names)})`);
}

/** The arguments of an action, by parameter. */
export interface ActionArguments {
  /** Values from JSON. */
  readonly values: Readonly<Record<string, unknown>>;
  /** What was typed for other parameters; their types say what it means. */
  readonly texts: Readonly<Record<string, string>>;
}

/** The code that runs a saved action. */
export function runCode(name: string, { values, texts }: ActionArguments): string {
  return call(`run(${JSON.stringify(name)}, ${literal(values)}, ${literal(texts)})`);
}

/** Reads what is wrong with each action. */
export function checkedIn(outputs: readonly Output[]): Record<string, string[]> | undefined {
  return problems.safeParse(told(outputs)).data;
}

/** Reads an action's result. */
export function resultIn(outputs: readonly Output[]): unknown {
  return outcome.safeParse(told(outputs)).data?.result;
}

const problems = z.record(z.string(), z.array(z.string()));
const outcome = z.object({ result: z.unknown() });

/** An expression, so that the user's namespace stays as it is. */
function call(expression: string): string {
  return `__import__("ipybox_runtime.actions").actions.${expression};`;
}

/** A value as a Python expression. A JSON text in quotes is a Python text in quotes, too. */
function literal(value: unknown): string {
  return `__import__("json").loads(${JSON.stringify(JSON.stringify(value))})`;
}

function told(outputs: readonly Output[]): unknown {
  const last = outputs.findLast((output) =>
    output.type === "display_data" && MIME_TYPE in output.data
  );
  return last?.type === "display_data" ? last.data[MIME_TYPE] : undefined;
}
