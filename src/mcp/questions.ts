import { isRecord } from "../json/exact.ts";
import { checkJson, JsonLimitError } from "../json/measure.ts";
import { z } from "zod";

/** How a person answered a server's question. */
export type ElicitationAnswer =
  | {
    /** The form was filled in, or the address was opened. */
    readonly action: "accept";
    /** What was filled in. */
    readonly content?: Readonly<Record<string, FormValue>>;
  }
  | {
    /** `"decline"` says no; `"cancel"` says that nobody decided. */
    readonly action: "decline" | "cancel";
  };

/** An answer as it comes from a client, a page or another process. */
export const elicitationAnswer: z.ZodType<ElicitationAnswer> = z.object({
  action: z.enum(["accept", "decline", "cancel"]),
  content: z.record(
    z.string(),
    z.union([z.string(), z.number(), z.boolean(), z.array(z.string())]),
  ).optional(),
});

/** A server's question for form fields. */
export interface FormQuestion {
  /** Tells it from the other kind. */
  readonly kind: "form";
  /** Why the server asks, in its own words. */
  readonly message: string;
  /** What it asks for. */
  readonly fields: readonly FormField[];
  /** The JSON schema of the answer, as the server sent it. */
  readonly schema: unknown;
}

/** A server's request to open an address in a browser. */
export interface UrlQuestion {
  /** Tells it from the other kind. */
  readonly kind: "url";
  /** Why the server asks, in its own words. */
  readonly message: string;
  /** The address: `http` or `https`, without a user. Show its host before it is opened. */
  readonly url: URL;
}

/** What a server asks. */
export type ElicitationQuestion = FormQuestion | UrlQuestion;

/** More than a person would read. */
const MAX_MESSAGE = 10_000;
const MAX_FORM = 250_000;

/** A value takes much more memory than its text, and the schema is kept until the question is answered. */
const MAX_FORM_VALUES = 15_000;

function isTooLarge(schema: unknown): boolean {
  const text = JSON.stringify(schema) ?? "";
  if (text.length > MAX_FORM) return true;
  try {
    checkJson(new TextEncoder().encode(text), { maxValues: MAX_FORM_VALUES });
    return false;
  } catch (error) {
    if (error instanceof JsonLimitError) return true;
    throw error;
  }
}

/** Reads a server's question. */
export function parseElicitation(
  params: Readonly<Record<string, unknown>>,
): ElicitationQuestion | string {
  const { mode = "form", message, requestedSchema, url } = params;
  if (typeof message !== "string" || message.length > MAX_MESSAGE) return "its message is too long";
  if (mode === "form") {
    if (isTooLarge(requestedSchema)) return "its form is too large";
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

/** A choice of a {@linkcode FormField}. */
export interface FormOption {
  /** What is answered. */
  readonly value: string;
  /** What is shown. */
  readonly title: string;
}

/** What all fields of a form have. The texts are the server's, which nobody has checked. */
export interface FormFieldBase {
  /** The field's name in the answer. */
  readonly name: string;
  /** Its name for people. */
  readonly title: string;
  /** What it is for. */
  readonly description?: string;
  /** Whether an answer must have it. */
  readonly required: boolean;
}

/** A field of text. */
export interface TextField extends FormFieldBase {
  /** Tells it from the other fields. */
  readonly type: "text";
  /** The least number of characters. */
  readonly minLength?: number;
  /** The largest number of characters. */
  readonly maxLength?: number;
  /** What kind of text it is. */
  readonly format?: "email" | "uri" | "date" | "date-time";
  /** What to begin with. */
  readonly default?: string;
}

/** A field for a number. */
export interface NumberField extends FormFieldBase {
  /** Tells it from the other fields. */
  readonly type: "number" | "integer";
  /** The least value. */
  readonly minimum?: number;
  /** The largest value. */
  readonly maximum?: number;
  /** What to begin with. */
  readonly default?: number;
}

/** A field for yes or no. */
export interface BooleanField extends FormFieldBase {
  /** Tells it from the other fields. */
  readonly type: "boolean";
  /** What to begin with. */
  readonly default?: boolean;
}

/** A field for one of some choices. */
export interface ChoiceField extends FormFieldBase {
  /** Tells it from the other fields. */
  readonly type: "choice";
  /** What can be chosen. */
  readonly options: readonly FormOption[];
  /** What to begin with. */
  readonly default?: string;
}

/** A field for several of some choices. */
export interface ChoicesField extends FormFieldBase {
  /** Tells it from the other fields. */
  readonly type: "choices";
  /** What can be chosen. */
  readonly options: readonly FormOption[];
  /** The least number of choices. */
  readonly minItems?: number;
  /** The largest number of choices. */
  readonly maxItems?: number;
  /** What to begin with. */
  readonly default?: readonly string[];
}

/** A field of a form; see `type`. */
export type FormField = TextField | NumberField | BooleanField | ChoiceField | ChoicesField;

/** A value in the answer to a form. */
export type FormValue = string | number | boolean | readonly string[];

/** More than a person would read of a field, and of its options. */
const MAX_DESCRIPTION = 10_000;
const MAX_TITLE = 1000;
const MAX_OPTIONS = 1000;

const label = z.string().max(MAX_TITLE);
/** What is answered as it stands, so that it cannot be shown with escapes to each client's user. */
const plain = label.regex(/^[^\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]*$/u);
const titled = z.array(z.object({ const: plain, title: label.optional() })).max(MAX_OPTIONS);
const choices = {
  enum: z.array(plain).max(MAX_OPTIONS).optional(),
  enumNames: z.array(label).optional(),
  oneOf: titled.optional(),
} as const;
const base = {
  title: label.optional(),
  description: z.string().max(MAX_DESCRIPTION).optional(),
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
    items: z.object({ enum: z.array(plain).max(MAX_OPTIONS).optional(), anyOf: titled.optional() }),
    default: z.array(z.string()).optional(),
  }),
]);

/** What stands for a question on its way through the SDK, which would take long for a hostile one. */
const STAND_IN = { mode: "form", message: "", requestedSchema: { type: "object", properties: {} } };
const SEALED = "ipybox/question";

class SealedQuestion {
  readonly #question: ElicitationQuestion | string;

  constructor(question: ElicitationQuestion | string) {
    this.#question = question;
  }

  static open(value: unknown): ElicitationQuestion | string | undefined {
    const isSealed = typeof value === "object" && value !== null && #question in value;
    return isSealed ? value.#question : undefined;
  }
}

/** Reads the question in a request of a server, if it is one, and seals it. */
export function sealQuestion<Request>(request: Request): Request {
  if (!isRecord(request) || request.method !== "elicitation/create") return request;
  const { params } = request;
  const question = isRecord(params) ? parseElicitation(params) : "it has no parameters";
  const sealed = { ...STAND_IN, _meta: { [SEALED]: new SealedQuestion(question) } };
  return { ...request, params: sealed };
}

/** The question of a request, or why it cannot be asked. One that came early is not sealed. */
export function openQuestion(
  params: Readonly<Record<string, unknown>>,
): ElicitationQuestion | string {
  const sealed = isRecord(params._meta) ? SealedQuestion.open(params._meta[SEALED]) : undefined;
  return sealed ?? parseElicitation(params);
}

const formSchema = z.object({
  type: z.literal("object"),
  properties: z.record(plain, property),
  required: z.array(z.string()).default([]),
});

/** More than a person would fill in. */
const MAX_FIELDS = 100;
const MAX_ALL_OPTIONS = 2000;

/** Reads the schema of a form. */
export function parseForm(schema: unknown): readonly FormField[] | undefined {
  const given = isRecord(schema) && isRecord(schema.properties) ? schema.properties : {};
  if (Object.keys(given).length > MAX_FIELDS) return undefined;
  const parsed = formSchema.safeParse(schema).data;
  if (parsed === undefined) return undefined;
  const properties = Object.entries(parsed.properties);
  const required = new Set(parsed.required);
  const fields = properties.map(([name, inner]) => field(name, inner, required.has(name)));
  const options = fields.reduce(
    (sum, field) => sum + ("options" in field ? field.options.length : 0),
    0,
  );
  return options > MAX_ALL_OPTIONS ? undefined : fields;
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

/** Checks an answer to a form. */
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

/** What a value should be instead, or `undefined` for one that is right. */
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
