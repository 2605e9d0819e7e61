import type { z } from "zod";
import { ConfigError } from "../../base/errors.ts";
import { parseFile, pointerOf } from "../../json/document.ts";
import { oneLine } from "../../json/problems.ts";
import { PolicyRules, type PolicySource } from "./rules.ts";
import { policySchema } from "./schema.ts";

/** The most problems that an error lists: a file that came with a repository can have thousands. */
const MAX_PROBLEMS = 50;

/**
 * Parses a policy.
 *
 * @param name The file name, for errors and decisions.
 * @param text Its text.
 * @returns The policy.
 * @throws {ConfigError} The policy is invalid; the message contains lines, columns and JSON
 * pointers.
 */
export function parsePolicy(name: string, text: string): PolicySource {
  const located = parseFile(name, text, { comments: true });
  const parsed = policySchema.safeParse(located.value);
  if (parsed.success) return { name, document: parsed.data };
  const all = parsed.error.issues.flatMap((issue) => problemsOf(issue, []));
  const problems = all.slice(0, MAX_PROBLEMS)
    .map(({ path, message }) => {
      const pointer = pointerOf(path);
      const { line, column } = located.placeOf(pointer);
      return `${name}:${line}:${column}: ${
        oneLine(pointer === "" ? message : `${pointer}: ${message}`)
      }`;
    });
  if (all.length > problems.length) problems.push(`and ${all.length - problems.length} more`);
  throw new ConfigError(`Invalid policy\n${problems.join("\n")}`, { cause: parsed.error });
}

/** Joins policies; `undefined` without any. */
export function joinPolicies(
  sources: readonly PolicySource[],
  { workspace }: { readonly workspace?: string },
): PolicyRules | undefined {
  const home = Deno.env.get("HOME");
  return sources.length === 0 ? undefined : new PolicyRules(sources, { workspace, home });
}

interface Problem {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** The problems of an issue. For a union, those of the only alternative with the right type. */
function problemsOf(issue: z.core.$ZodIssue, base: readonly PropertyKey[]): Problem[] {
  const path = [...base, ...issue.path];
  if (issue.code === "invalid_key") {
    return issue.issues.map(({ message }) => ({ path, message }));
  }
  if (issue.code !== "invalid_union") {
    // An unknown name is its own location.
    const keys = issue.code === "unrecognized_keys" ? issue.keys : [];
    return keys.length === 0
      ? [{ path, message: issue.message }]
      : keys.map((key) => ({ path: [...path, key], message: "Unknown name" }));
  }
  const branches = issue.errors.filter((errors) =>
    !errors.some((error) => error.code === "invalid_type" && error.path.length === 0)
  );
  const [meant] = branches;
  if (branches.length !== 1 || meant === undefined) return [{ path, message: issue.message }];
  return meant.flatMap((inner) => problemsOf(inner, path));
}
