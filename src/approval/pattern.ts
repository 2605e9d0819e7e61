import type { ApprovalCall } from "./request.ts";

/**
 * The calls of one tool that a remembered decision applies to, between any arguments and exactly
 * these: conditions as in a policy's rule, all of which must hold.
 */
export interface Pattern {
  /** A folder or the beginning of a URL, by JSON pointer to an argument. */
  readonly arguments?: Readonly<Record<string, PatternTest>>;
  /** A pattern for the words of a simple shell command. */
  readonly command?: string;
}

/** The folder that a path must be in, or the text that an argument must begin with. */
export type PatternTest = { readonly path: string } | { readonly prefix: string };

/** Proposes patterns, and judges calls by them. */
export interface PatternJudge {
  /** The pattern to propose for a call, which it certainly matches. */
  propose(call: ApprovalCall): Pattern | undefined;
  /** Whether a call certainly matches the pattern of a remembered decision. */
  matches(
    remembered: { readonly decision: "allow" | "deny"; readonly where?: Pattern },
    call: ApprovalCall,
  ): boolean;
}

/** Describes a pattern. Names, folders and URLs in it come from a call or a file. */
export function patternText({ arguments: tests = {}, command }: Pattern): string {
  if (command !== undefined) return `any command like \`${command}\``;
  const values = Object.entries(tests).map(([pointer, test]) => {
    const name = `any \`${pointer.slice(1)}\``;
    return "path" in test
      ? `${name} below ${test.path}`
      : `${name} that begins with ${test.prefix}`;
  });
  return `${values.join(" and ")} (other arguments: any)`;
}
