import type { z } from "zod";
import type { CallToolResult, ContentBlock } from "./sdk.ts";

/** Under which key of `_meta` programs find the same as data. No client shows `_meta` to its model. */
export const REPORT_KEY = "io.github.ipybox/report";

/** What a tool has to say. */
export interface Answer<Report> {
  /** For the model. */
  readonly text: string;
  readonly images?: readonly ContentBlock[];
  /** The same for programs. */
  readonly report: Report;
  /** Whether the tool could not do what it was asked for. */
  readonly isError?: boolean;
}

/** How tools declare what they give. */
type Declared<Report> = { outputSchema?: z.ZodType<Report> };

/**
 * The form in which tools answer: one text, then images, which is what every client shows its model.
 *
 * Structured content is sent only on request: clients that know it show it instead of the text and the
 * images, or in addition to them, and send output schemas to the model with every request. Links to
 * resources are not sent at all: some clients read them into the context, or break.
 */
export class Answers {
  readonly #structured: boolean;

  /** @param structured Whether the report is sent as structured content, too. */
  constructor(structured: boolean) {
    this.#structured = structured;
  }

  /** The part of a tool's definition that says what its reports are like. */
  declare<Report>(outputSchema: z.ZodType<Report>): Declared<Report> {
    return this.#structured ? { outputSchema } : {};
  }

  /** Makes the result of a tool call. */
  of<Report extends object>(
    { text, images = [], report, isError = false }: Answer<Report>,
  ): CallToolResult {
    const data = Object.fromEntries<unknown>(Object.entries(report));
    return {
      content: [{ type: "text", text }, ...images],
      _meta: { [REPORT_KEY]: data },
      ...(this.#structured ? { structuredContent: data } : {}),
      ...(isError ? { isError } : {}),
    };
  }
}
