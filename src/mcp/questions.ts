import { isRecord } from "../json/exact.ts";
import { z } from "zod";

/** A person's answer to a server's question. */
export type ElicitationAnswer =
  | {
    /** The form was filled in, or the URL was opened. */
    readonly action: "accept";
    /** The values of the form. */
    readonly content?: Readonly<Record<string, FormValue>>;
  }
  | {
    /** `"decline"` refuses; `"cancel"` means that nobody decided. */
    readonly action: "decline" | "cancel";
  };

/** Validates an answer from a client, a page or another process. */
export const elicitationAnswer: z.ZodType<ElicitationAnswer> = z.object({
  action: z.enum(["accept", "decline", "cancel"]),
  content: z.record(
    z.string(),
    z.union([z.string(), z.number(), z.boolean(), z.array(z.string())]),
  ).optional(),
});

/** A server's question in the form of input fields. */
export interface FormQuestion {
  /** The kind of question. */
  readonly kind: "form";
  /** Why the server asks, in the server's words. */
  readonly message: string;
  /** The fields to fill in. */
  readonly fields: readonly FormField[];
  /** The JSON schema of the answer, as the server sent it. */
  readonly schema: unknown;
}

/** A server's request to open a URL in a browser. */
export interface UrlQuestion {
  /** The kind of question. */
  readonly kind: "url";
  /** Why the server asks, in the server's words. */
  readonly message: string;
  /** An `http` or `https` URL without user information. Show its host before opening it. */
  readonly url: URL;
}

/** A server's question to a person. */
export type ElicitationQuestion = FormQuestion | UrlQuestion;

/** More characters than a person would read. The question is kept until the answer. */
const MAX_QUESTION = 250_000;

/** Parses a server's question, or returns why it cannot be asked. */
export function parseElicitation(
  params: Readonly<Record<string, unknown>>,
): ElicitationQuestion | string {
  if (JSON.stringify(params).length > MAX_QUESTION) return "it is too large";
  const { mode = "form", message, requestedSchema, url } = params;
  if (typeof message !== "string") return "it has no message";
  if (mode === "form") {
    const fields = parseForm(requestedSchema);
    if (fields === undefined) return "its schema does not describe a form";
    return { kind: "form", message, fields, schema: requestedSchema };
  }
  const address = typeof url === "string" ? URL.parse(url) : null;
  if (address === null || !["http:", "https:"].includes(address.protocol)) {
    return "its URL is neither http nor https";
  }
  if (address.username !== "" || address.password !== "") return "its URL contains a user name";
  return { kind: "url", message, url: address };
}

/** An option of a {@linkcode FormField}. */
export interface FormOption {
  /** The value in the answer. */
  readonly value: string;
  /** The text to display. */
  readonly title: string;
}

/** The common part of all form fields. The texts come from the server, unchecked. */
export interface FormFieldBase {
  /** The field's name in the answer. */
  readonly name: string;
  /** Its display name. */
  readonly title: string;
  /** Its purpose. */
  readonly description?: string;
  /** Whether the answer must contain it. */
  readonly required: boolean;
}

/** A text field. */
export interface TextField extends FormFieldBase {
  /** The type of field. */
  readonly type: "text";
  /** The minimum number of characters. */
  readonly minLength?: number;
  /** The maximum number of characters. */
  readonly maxLength?: number;
  /** The format of the text. */
  readonly format?: "email" | "uri" | "date" | "date-time";
  /** The initial value. */
  readonly default?: string;
}

/** A number field. */
export interface NumberField extends FormFieldBase {
  /** The type of field. */
  readonly type: "number" | "integer";
  /** The minimum value. */
  readonly minimum?: number;
  /** The maximum value. */
  readonly maximum?: number;
  /** The initial value. */
  readonly default?: number;
}

/** A yes-or-no field. */
export interface BooleanField extends FormFieldBase {
  /** The type of field. */
  readonly type: "boolean";
  /** The initial value. */
  readonly default?: boolean;
}

/** A field for one of several options. */
export interface ChoiceField extends FormFieldBase {
  /** The type of field. */
  readonly type: "choice";
  /** The options. */
  readonly options: readonly FormOption[];
  /** The initial value. */
  readonly default?: string;
}

/** A field for any number of options. */
export interface ChoicesField extends FormFieldBase {
  /** The type of field. */
  readonly type: "choices";
  /** The options. */
  readonly options: readonly FormOption[];
  /** The minimum number of selected options. */
  readonly minItems?: number;
  /** The maximum number of selected options. */
  readonly maxItems?: number;
  /** The initial value. */
  readonly default?: readonly string[];
}

/** A form field; its `type` says which kind. */
export type FormField = TextField | NumberField | BooleanField | ChoiceField | ChoicesField;

/** A value in the answer to a form. */
export type FormValue = string | number | boolean | readonly string[];

/** Text that is returned unchanged: some clients display it unescaped. */
const plain = z.string().regex(/^[^\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]*$/u);
const titled = z.array(z.object({ const: plain, title: z.string().optional() }));
const choices = {
  enum: z.array(plain).optional(),
  enumNames: z.array(z.string()).optional(),
  oneOf: titled.optional(),
} as const;
const base = {
  title: z.string().optional(),
  description: z.string().optional(),
} as const;
const count = z.int().nonnegative().optional();

const property = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("string"),
    ...base,
    ...choices,
    minLength: count,
    maxLength: count,
    format: z.enum(["email", "uri", "date", "date-time"]).optional().catch(undefined),
    default: z.string().optional(),
  }),
  z.object({
    type: z.enum(["number", "integer"]),
    ...base,
    minimum: z.number().optional(),
    maximum: z.number().optional(),
    default: z.number().optional(),
  }),
  z.object({ type: z.literal("boolean"), ...base, default: z.boolean().optional() }),
  z.object({
    type: z.literal("array"),
    ...base,
    minItems: count,
    maxItems: count,
    items: z.object({ enum: z.array(plain).optional(), anyOf: titled.optional() }),
    default: z.array(z.string()).optional(),
  }),
]);

/** Stands in for a question on its way through the SDK, which takes long to validate a hostile one. */
const STAND_IN = { mode: "form", message: "", requestedSchema: { type: "object", properties: {} } };
const QUESTION = "ipybox/question";

class OpaqueQuestion {
  readonly #question: ElicitationQuestion | string;

  constructor(question: ElicitationQuestion | string) {
    this.#question = question;
  }

  static open(value: unknown): ElicitationQuestion | string | undefined {
    const isOpaque = typeof value === "object" && value !== null && #question in value;
    return isOpaque ? value.#question : undefined;
  }
}

/** Parses the question in a server's request, if it is one, and hides it from the SDK. */
export function wrapQuestion<Request>(request: Request): Request {
  if (!isRecord(request) || request.method !== "elicitation/create") return request;
  const { params } = request;
  const question = isRecord(params) ? parseElicitation(params) : "it has no parameters";
  const wrapped = { ...STAND_IN, _meta: { [QUESTION]: new OpaqueQuestion(question) } };
  return { ...request, params: wrapped };
}

/** A request's question, or why it cannot be asked. It may have arrived before wrapping began. */
export function openQuestion(
  params: Readonly<Record<string, unknown>>,
): ElicitationQuestion | string {
  const wrapped = isRecord(params._meta) ? OpaqueQuestion.open(params._meta[QUESTION]) : undefined;
  return wrapped ?? parseElicitation(params);
}

const formSchema = z.object({
  type: z.literal("object"),
  properties: z.record(plain, property),
  required: z.array(z.string()).default([]),
});

/** Parses the schema of a form; `undefined` if it is not one. */
export function parseForm(schema: unknown): readonly FormField[] | undefined {
  const parsed = formSchema.safeParse(schema).data;
  if (parsed === undefined) return undefined;
  const properties = Object.entries(parsed.properties);
  const required = new Set(parsed.required);
  return properties.map(([name, inner]) => field(name, inner, required.has(name)));
}

function field(name: string, inner: z.infer<typeof property>, required: boolean): FormField {
  const { title = name, description } = inner;
  const common = { name, title, description, required };
  switch (inner.type) {
    case "string": {
      const { minLength, maxLength, format, enum: values, enumNames, oneOf } = inner;
      const options = optionsOf(values, oneOf, enumNames);
      return options === undefined
        ? { type: "text", ...common, minLength, maxLength, format, default: inner.default }
        : { type: "choice", ...common, options, default: inner.default };
    }
    case "number":
    case "integer": {
      const { type, minimum, maximum } = inner;
      return { type, ...common, minimum, maximum, default: inner.default };
    }
    case "boolean":
      return { type: "boolean", ...common, default: inner.default };
    case "array": {
      const { minItems, maxItems, items } = inner;
      const options = optionsOf(items.enum, items.anyOf) ?? [];
      return { type: "choices", ...common, options, minItems, maxItems, default: inner.default };
    }
  }
}

function optionsOf(
  values: readonly string[] | undefined,
  titles: z.infer<typeof titled> | undefined,
  names: readonly string[] = [],
): readonly FormOption[] | undefined {
  return titles?.map(({ const: value, title = value }) => ({ value, title })) ??
    values?.map((value, at) => ({ value, title: names[at] ?? value }));
}

/** Validates an answer to a form and lists the problems. */
export function checkForm(
  fields: readonly FormField[],
  content: Readonly<Record<string, unknown>>,
): string[] {
  const known = new Set(fields.map(({ name }) => name));
  const problems = Object.keys(content)
    .filter((name) => !known.has(name))
    .map((name) => `${name} is not a field of the form`);
  for (const field of fields) {
    const given = Object.hasOwn(content, field.name);
    const problem = given ? problemOf(field, content[field.name]) : undefined;
    if (!given && field.required) problems.push(`${field.name} is missing`);
    if (problem !== undefined) problems.push(`${field.name} must be ${problem}`);
  }
  return problems;
}

/** The requirement that a value misses; `undefined` if it is valid. */
function problemOf(field: FormField, value: unknown): string | undefined {
  switch (field.type) {
    case "text":
      return textProblem(field, value);
    case "number":
    case "integer": {
      const { type, minimum = -Infinity, maximum = Infinity } = field;
      const right = type === "integer" ? Number.isSafeInteger(value) : Number.isFinite(value);
      if (!right || typeof value !== "number") {
        return `a ${type === "number" ? "" : "whole "}number`;
      }
      return value < minimum || value > maximum ? span(minimum, maximum) : undefined;
    }
    case "boolean":
      return typeof value === "boolean" ? undefined : "true or false";
    case "choice":
      return isOption(field, value) ? undefined : `one of ${valuesOf(field)}`;
    case "choices": {
      const { minItems = 0, maxItems = Infinity } = field;
      const all = Array.isArray(value) && value.every((inner) => isOption(field, inner));
      if (!all || new Set(value).size < value.length) {
        return `a list of values from ${valuesOf(field)}`;
      }
      const { length } = value;
      return length < minItems || length > maxItems ? span(minItems, maxItems, "items") : undefined;
    }
  }
}

function span(least: number, most: number, unit = ""): string {
  const range = most === Infinity
    ? `at least ${least}`
    : least === -Infinity
    ? `at most ${most}`
    : `${least} to ${most}`;
  return `${range} ${unit}`.trim();
}

function textProblem(field: TextField, value: unknown): string | undefined {
  if (typeof value !== "string") return "text";
  const { minLength = 0, maxLength = Infinity, format } = field;
  const length = [...value].length;
  if (length < minLength || length > maxLength) return span(minLength, maxLength, "characters");
  return format === undefined || FORMATS[format].safeParse(value).success
    ? undefined
    : `in the format ${format}`;
}

const FORMATS = {
  email: z.email(),
  uri: z.url(),
  date: z.iso.date(),
  "date-time": z.iso.datetime({ offset: true, local: true }),
} as const;

function isOption({ options }: ChoiceField | ChoicesField, value: unknown): boolean {
  return options.some((option) => option.value === value);
}

function valuesOf({ options }: ChoiceField | ChoicesField): string {
  return options.map(({ value }) => value).join(", ");
}
