import type { z } from "zod";
import type { CallToolResult, ContentBlock } from "./sdk.ts";

interface Answer<Report> {
  /** For the model. */
  readonly text: string;
  readonly images?: readonly ContentBlock[];
  /** The same for programs. */
  readonly report: Report;
  readonly isError?: boolean;
}

type Declared<Report> = { outputSchema?: z.ZodType<Report> };

/**
 * How tools answer: one text, then images, as every client shows these to its model.
 *
 * Structured content is sent only on request: clients that support it show it instead of the text and
 * the images, or in addition to them, and send output schemas to the model with every request. Some also
 * show `_meta`. Links to resources are not sent at all: some clients read them into the context, or
 * break.
 */
export class Answers {
  readonly #structured: boolean;

  constructor(structured: boolean) {
    this.#structured = structured;
  }

  declare<Report>(outputSchema: () => z.ZodType<Report>): Declared<Report> {
    return this.#structured ? { outputSchema: outputSchema() } : {};
  }

  of<Report extends object>(
    { text, images = [], report, isError = false }: Answer<Report>,
  ): CallToolResult {
    return {
      content: [{ type: "text", text }, ...images],
      ...(this.#structured ? { structuredContent: { ...report } } : {}),
      ...(isError ? { isError } : {}),
    };
  }
}
