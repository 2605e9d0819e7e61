import { z } from "zod";

/** The kind of a call. */
export type PolicyKind = "tool" | "resource" | "shell" | "shell_magic" | "elicitation";

/** A JSON value in a policy, with JavaScript numbers. */
export type PolicyValue =
  | null
  | boolean
  | number
  | string
  | readonly PolicyValue[]
  | { readonly [name: string]: PolicyValue };

/** Tests of an argument, all of which must pass. */
export interface ArgumentTest {
  /** The argument equals this JSON value. */
  readonly equals?: PolicyValue;
  /** The argument equals one of these JSON values. */
  readonly oneOf?: readonly PolicyValue[];
  /** The argument is a string that matches: `*` stands for any characters, `?` for one. */
  readonly glob?: string | readonly string[];
  /** The argument is a string with this prefix. */
  readonly prefix?: string | readonly string[];
  /**
   * The argument is the absolute path of one of these folders, or of something in it; `"."` is the
   * workspace.
   */
  readonly path?: string | readonly string[];
  /** The argument is a number of at least this. */
  readonly min?: number;
  /** The argument is a number of at most this. */
  readonly max?: number;
  /** The argument is a list, and each item matches this. */
  readonly each?: ArgumentCondition;
  /** The argument is a list, and at least one item matches this. */
  readonly some?: ArgumentCondition;
  /** The argument is present and does not match this. */
  readonly not?: ArgumentCondition;
  /** Whether the argument is present. */
  readonly exists?: boolean;
}

/** A value that an argument must equal, or tests. */
export type ArgumentCondition = null | boolean | number | string | ArgumentTest;

/** The effect of a rule on a matching call. */
export type PolicyEffect = "allow" | "ask" | "deny";

/** A rule. All its conditions must hold. */
export interface PolicyRule {
  /** The effect on the call. */
  readonly effect: PolicyEffect;
  /** A name for the rule in decisions, beside its number. */
  readonly name?: string;
  /** The kind of call. */
  readonly kind?: PolicyKind | readonly PolicyKind[];
  /** Patterns for the registered server. */
  readonly server?: string | readonly string[];
  /** Patterns for the tool's name. */
  readonly tool?: string | readonly string[];
  /** The server's hints about the tool. */
  readonly annotations?: Readonly<Partial<Record<AnnotationName, boolean | undefined>>>;
  /** Conditions on arguments, by JSON pointer. */
  readonly arguments?: Readonly<Record<string, ArgumentCondition>>;
  /** Patterns for simple shell commands. */
  readonly command?: string | readonly string[];
  /** The reason, which code receives when its call is denied. */
  readonly reason?: string;
}

/** A call as written for `ipybox policy` and in a policy's tests. */
export interface PolicyCall {
  /** The kind of call. */
  readonly kind: PolicyKind;
  /** The registered server. */
  readonly server?: string;
  /** The tool. */
  readonly tool?: string;
  /** The arguments. */
  readonly arguments?: Readonly<Record<string, PolicyValue>>;
  /** The server's hints about the tool. */
  readonly annotations?: Readonly<Partial<Record<AnnotationName, boolean | undefined>>>;
  /** The command line, for shell commands. */
  readonly command?: string;
}

/** A call and the expected effect of the policy. */
export interface PolicyTest {
  /** The call. */
  readonly call: PolicyCall;
  /** The expected effect. */
  readonly expect: PolicyEffect;
  /** A name for the test in results, beside its number. */
  readonly name?: string;
}

/** The content of a policy file. */
export interface PolicyDocument {
  /** The location of the JSON Schema for editors. */
  readonly $schema?: string;
  /** Servers whose annotations may allow calls. */
  readonly trustedServers: readonly string[];
  /** Patterns for names of arguments whose values the audit log also omits. */
  readonly redact: readonly string[];
  /** The rules. */
  readonly rules: readonly PolicyRule[];
  /** The cases that `ipybox policy test` checks. */
  readonly tests: readonly PolicyTest[];
}

/** The server's hints that rules can refer to. */
export const ANNOTATIONS: readonly AnnotationName[] = [
  "readOnlyHint",
  "destructiveHint",
  "idempotentHint",
  "openWorldHint",
];

/** The name of a hint. */
export type AnnotationName =
  | "readOnlyHint"
  | "destructiveHint"
  | "idempotentHint"
  | "openWorldHint";

const text = z.string().min(1);
const texts = z.union([text, z.array(text).min(1)]);
const command = text.refine(
  (pattern) => !pattern.split(/\s+/).some((word) => /^[<>|;&]/.test(word)),
  {
    message:
      'A rule describes one simple command, without ">", "<", "|", ";" or "&": remove them. ' +
      "Command lines that contain them need approval",
  },
);
const commands = z.union([command, z.array(command).min(1)]);
/** Larger integers would be rounded, and then match other numbers. */
const number = z.number().refine(
  (value) => !Number.isInteger(value) || Number.isSafeInteger(value),
  {
    message: "Integers above 2^53 lose digits: use a string or leave the decision to an approver",
  },
);

const value: z.ZodType<PolicyValue> = z.lazy(() =>
  z.union([z.null(), z.boolean(), number, z.string(), z.array(value), z.record(z.string(), value)])
).meta({ id: "value", description: "Any JSON value" });

const condition: z.ZodType<ArgumentCondition> = z.lazy(() =>
  z.union([z.null(), z.boolean(), number, z.string(), test])
).meta({ id: "condition", description: "A value that the argument must equal, or tests" });

const test: z.ZodType<ArgumentTest> = z.strictObject({
  equals: value.optional().describe("The argument equals this JSON value"),
  oneOf: z.array(value).min(1).optional().describe("The argument equals one of these JSON values"),
  glob: texts.optional().describe(
    "The argument is a string that matches: * is any characters, including /; ? is one. For files, use path",
  ),
  prefix: texts.optional().describe(
    "The argument is a string with this prefix. For files, use path",
  ),
  path: texts.optional().describe(
    "The argument is the absolute path of one of these folders, or of something in it. Relative folders start at the workspace",
  ),
  min: number.optional().describe("The argument is a number of at least this"),
  max: number.optional().describe("The argument is a number of at most this"),
  each: condition.optional().describe("The argument is a list, and each item matches this"),
  some: condition.optional().describe("The argument is a list, and at least one item matches this"),
  not: condition.optional().describe("The argument is present and does not match this"),
  exists: z.boolean().optional().describe("Whether the argument is present"),
}).refine((tests) => Object.keys(tests).length > 0, { message: "Specify at least one test" })
  .meta({ id: "test", description: "Tests of an argument, all of which must pass" });

const annotations = z.strictObject({
  readOnlyHint: z.boolean().optional(),
  destructiveHint: z.boolean().optional(),
  idempotentHint: z.boolean().optional(),
  openWorldHint: z.boolean().optional(),
});

const kind = z.enum(["tool", "resource", "shell", "shell_magic", "elicitation"]);
const effect = z.enum(["allow", "ask", "deny"]);

const rule: z.ZodType<PolicyRule> = z.strictObject({
  effect: effect.describe(
    "The effect on a matching call: deny overrides ask, and ask overrides allow",
  ),
  name: text.optional().describe("A name for this rule in decisions, beside its number"),
  kind: z.union([kind, z.array(kind).min(1)]).optional().describe(
    "The kind of call. An elicitation is a question from a server: deny declines it without asking",
  ),
  server: texts.optional().describe("The registered server: a name, or a pattern with * and ?"),
  tool: texts.optional().describe("The tool's name on the server, or a pattern with * and ?"),
  annotations: annotations.optional().describe(
    "The server's hints about the tool. They allow nothing unless the server is in trustedServers",
  ),
  arguments: z.record(
    z.string().regex(/^(\/([^~/]|~[01])*)*$/, {
      message: 'Must be a JSON pointer, such as "/path" or "/options/0"',
    }),
    condition,
  ).optional().describe('Conditions on arguments, by JSON pointer such as "/path"'),
  command: commands.optional().describe(
    "A pattern for each word of a simple shell command: * and ? are characters, ** is any number of " +
      "words. Command lines with operators, expansions or redirections need approval, and are denied " +
      "if a deny rule names one of their words",
  ),
  reason: text.optional().describe("The reason, which code receives when its call is denied"),
}).refine((value) => value.command === undefined || !excludesShell(value.kind), {
  message: 'Only rules about "shell" and "shell_magic" can have a command',
  path: ["command"],
});

/** Validates calls for `ipybox policy explain`. */
export const policyCallSchema: z.ZodType<PolicyCall> = z.strictObject({
  kind: kind.default("tool"),
  server: text.optional(),
  tool: text.optional(),
  arguments: z.record(z.string(), value).optional(),
  annotations: annotations.optional(),
  command: z.string().optional().describe("The command line, for shell commands"),
});

/** Validates policy files. */
export const policySchema: z.ZodType<PolicyDocument> = z.strictObject({
  $schema: z.string().optional(),
  trustedServers: z.array(text).default([]).describe(
    "Servers, by their exact names, whose annotations may allow calls",
  ),
  redact: z.array(text).default([]).describe(
    "Names of arguments, or patterns with * and ?, whose values the audit log also omits",
  ),
  rules: z.array(rule).default([]),
  tests: z.array(
    z.strictObject({
      call: policyCallSchema,
      expect: effect,
      name: text.optional(),
    }),
  ).default([]).describe("The cases that `ipybox policy test` checks"),
}).meta({
  title: "ipybox policy",
  description: "Which tool calls and shell commands are allowed, need approval or are denied",
});

/** The JSON Schema of policy files, for editors. */
export function policyJsonSchema(): Record<string, unknown> {
  return { ...z.toJSONSchema(policySchema, { io: "input" }) };
}

function excludesShell(kinds: PolicyRule["kind"]): boolean {
  if (kinds === undefined) return false;
  return ![kinds].flat().some((one) => one === "shell" || one === "shell_magic");
}
