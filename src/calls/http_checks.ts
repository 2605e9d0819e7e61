/**
 * The first checks of every HTTP request: host, origin, token, method, and the body's size and shape.
 *
 * @module
 */

import { Deadline } from "../base/deadline.ts";
import { checkJson, JsonLimitError } from "../json/measure.ts";
import { readWhole } from "../base/bytes.ts";
import { LOOPBACK_HOSTS, sameToken } from "../base/tokens.ts";

/** Refuses a request before it is processed. */
export class Refused extends Error {
  override readonly name: string = "Refused";

  constructor(readonly status: number, message: string, options?: ErrorOptions) {
    super(message, options);
  }
}

/** Parsing a body with more values would block the event loop for too long. */
export const MAX_VALUES = 250_000;

/** The time limit for a body to arrive. */
export const BODY_TIMEOUT_MS = 60_000;

/** Refuses requests of web pages: those with an origin, and those for another host, as after DNS rebinding. */
export function refusePages(request: Request): void {
  const host = request.headers.get("host") ?? "";
  if (!LOOPBACK_HOSTS.includes(host.replace(/:\d+$/, ""))) throw new Refused(421, "Wrong Host");
  if (request.headers.has("origin")) throw new Refused(403, "Requests from web pages are refused");
}

/** Refuses requests without the right bearer token. */
export function requireToken(request: Request, token: string): void {
  const given = /^Bearer (.+)$/i.exec(request.headers.get("authorization") ?? "")?.[1];
  if (given === undefined || !sameToken(given, token)) throw new Refused(401, "Wrong token");
}

/** Refuses requests with another method. */
export function requireMethod(request: Request, method: string): void {
  if (request.method !== method) throw new Refused(405, `Use ${method}`);
}

/** Refuses requests whose body is not declared as JSON, such as those of web forms. */
function requireJson(request: Request): void {
  const type = request.headers.get("content-type")?.split(";", 1)[0]?.trim().toLowerCase();
  if (type !== "application/json") throw new Refused(415, "Use Content-Type: application/json");
}

/** Reads a JSON body as text. Its size is counted as it arrives, and its values before it is parsed. */
export async function readJsonBody(
  request: Request,
  maxBytes: number,
  maxValues: number = MAX_VALUES,
): Promise<string> {
  const body = await readBody(request, maxBytes);
  try {
    checkJson(body, maxValues);
  } catch (error) {
    if (!(error instanceof JsonLimitError)) throw error;
    throw new Refused(413, `Cannot accept the body: ${error.message}`);
  }
  return new TextDecoder().decode(body);
}

/** Reads a body that is declared as JSON, without checking it. */
async function readBody(request: Request, maxBytes: number): Promise<Uint8Array> {
  requireJson(request);
  const declared = declaredLength(request);
  if (declared !== undefined && declared > maxBytes) throw tooLarge(maxBytes);
  if (request.body === null) return new Uint8Array();
  using deadline = new Deadline(BODY_TIMEOUT_MS);
  const options = { maxBytes, tooLong: () => tooLarge(maxBytes), signal: deadline.signal };
  return await readWhole(request.body, options).catch((error) => {
    throw deadline.passed ? tooSlow() : unread(error);
  });
}

/**
 * The declared length of a body. Over HTTP/2 there may be several, joined into text that is not a
 * number.
 */
export function declaredLength({ headers }: Request): number | undefined {
  const text = headers.has("transfer-encoding") ? null : headers.get("content-length");
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

/** The refusal of a body that was not read. If reading failed, its sender has gone. */
function unread(error: unknown): Refused {
  return error instanceof Refused
    ? error
    : new Refused(400, "The body is cut off", { cause: error });
}

/** Creates a JSON response that must not be cached or sniffed. */
export function jsonResponse(text: string, status = 200): Response {
  const headers = {
    "content-type": "application/json",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
  };
  return new Response(text, { status, headers });
}

/** The refusal of a body that arrives too slowly. */
export function tooSlow(): Refused {
  return new Refused(408, "The body arrived too slowly");
}

/** The refusal of a body that is too large. */
export function tooLarge(maxBytes: number): Refused {
  return new Refused(
    413,
    `The body exceeds ${maxBytes} bytes: write long values to a file, and pass its path`,
  );
}
