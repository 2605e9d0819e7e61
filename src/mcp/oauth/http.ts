import { anySignal } from "../../async/signals.ts";
import { bodyOf } from "../../net/body_of.ts";
import { readWhole } from "../../net/byte_buffer.ts";
import type { FetchLike } from "../sdk.ts";
import { trustedUrl, UntrustedUrlError } from "./trusted_url.ts";

/** An answer of an authorization server cannot be used. The message is safe to show. */
export class OAuthHttpError extends TypeError {
  override readonly name: string = "OAuthHttpError";
}

/** No metadata and no answer with tokens is longer. */
const MAX_BYTES = 256 * 1024;
/** How long one request may take. */
const TIMEOUT_MS = 20_000;

/**
 * Makes the `fetch` for metadata and tokens: only to addresses that the server may send us to, with a
 * limit of time and size, without following redirects by itself, and without the headers that the
 * user has set for the server.
 */
export function oauthFetch(server: URL, signal?: AbortSignal): FetchLike {
  return async (input, init) => {
    const url = trustedUrl("address", input, server);
    const expiry = AbortSignal.timeout(TIMEOUT_MS);
    const stop = anySignal(expiry, signal, init?.signal ?? undefined);
    try {
      const response = await fetch(url, { ...init, redirect: "manual", signal: stop });
      return await bounded(response, stop);
    } catch (error) {
      if (expiry.aborted) throw new OAuthHttpError(`${url.host} did not answer in time`);
      if (stop.aborted || error instanceof OAuthHttpError) throw error;
      throw new OAuthHttpError(`${url.host} cannot be reached: ${networkReason(error)}`);
    }
  };
}

/** Whether an error's message is ours, and so safe to show. */
export function isOwnError(error: unknown): error is Error {
  return error instanceof OAuthHttpError || error instanceof UntrustedUrlError;
}

/** Reads a body to its end, or as far as any useful one goes. */
async function bounded(response: Response, signal: AbortSignal): Promise<Response> {
  const { status, statusText, headers } = response;
  const body = bodyOf(response, signal);
  if (body === null) return response;
  const tooLong = () =>
    new OAuthHttpError(`the answer of its authorization server is above ${MAX_BYTES} bytes`);
  const bytes = await readWhole(body, { maxBytes: MAX_BYTES, tooLong });
  const plain = new Headers(headers);
  for (const name of ["content-length", "content-encoding"]) plain.delete(name);
  const whole = [204, 205, 304].includes(status) ? null : bytes;
  return new Response(whole, { status, statusText, headers: plain });
}

/** The address in the message has secrets where one was in it. */
function networkReason(error: unknown): string {
  if (!(error instanceof Error)) return "the network failed";
  if (error.cause instanceof Error) return networkReason(error.cause);
  return error.message.replace(/\(https?:\S*/g, "").replace(/\s+/g, " ").slice(0, 200);
}
