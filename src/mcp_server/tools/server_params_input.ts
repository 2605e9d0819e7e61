import { z } from "zod";
import { isObject } from "../tool_input.ts";

/**
 * How a client names a server: as in an `mcpServers` file, with what that may hold beside. Variables and
 * headers are declared as lists, because not every model can be given an object with keys of its own
 * choice. Objects are taken, too.
 */
export const serverParamsInput: z.ZodType<Record<string, unknown>> = z.looseObject({
  command: z.string().optional().describe('Program of a local server, such as "npx"'),
  args: z.array(z.string()).optional().describe("Arguments"),
  env: pairs("=").optional().describe('Such as "API_KEY=${API_KEY}"'),
  url: z.string().optional().describe("Remote server, in place of command"),
  headers: pairs(": ").optional()
    .describe('Such as "Authorization: Bearer ${TOKEN}"'),
});

/** A list of names with their values, or the same as an object; the latter comes of both. */
function pairs(separator: string): z.ZodType<Record<string, string>> {
  const mark = separator.trim();
  const form = `expected "NAME${separator}value"`;
  return z.preprocess(
    (given) => isObject(given) ? Object.entries(given).map(([n, v]) => n + separator + v) : given,
    z.array(z.string().refine((line) => line.indexOf(mark) > 0, form)),
  ).transform((lines) =>
    Object.fromEntries(lines.map((line) => {
      const at = line.indexOf(mark);
      const value = line.slice(at + mark.length);
      return [line.slice(0, at).trim(), mark === separator ? value : value.trim()];
    }))
  );
}
