/** The code that checks and runs saved actions in a kernel, and its results. */
import { z } from "zod";
import type { Output } from "../../kernel/outputs.ts";

const MIME_TYPE = "application/vnd.ipybox.actions+json";

/** Checks actions, and their types where the kernel's Python has the type checker. */
export function checkCode(
  names: readonly string[],
  { types }: { readonly types: boolean },
): string {
  return call(`check(${literal(names)}, ${types ? "True" : "False"})`);
}

/** Runs an action with its arguments as text, which is parsed by the types of its parameters. */
export function runCode(name: string, texts: Readonly<Record<string, string>>): string {
  return call(`run(${JSON.stringify(name)}, ${literal(texts)})`);
}

/** Parses the problems of each action; `null` if the type checker is not installed. */
export function problemsIn(
  outputs: readonly Output[],
): Readonly<Record<string, string[]>> | null | undefined {
  return checked.safeParse(sentIn(outputs)).data?.problems;
}

/** Parses an action's result. */
export function resultIn(outputs: readonly Output[]): unknown {
  return outcome.safeParse(sentIn(outputs)).data?.result;
}

const checked = z.object({ problems: z.record(z.string(), z.array(z.string())).nullable() });
const outcome = z.object({ result: z.unknown() });

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
