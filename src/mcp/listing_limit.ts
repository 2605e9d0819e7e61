import { RateLimit } from "../async/rate_limit.ts";
import type { ServerParams } from "./server_params.ts";

/** Reading 16 MiB takes some tenths of a second. Usual lists take less than one MiB. */
const BYTES_PER_SECOND = 2 ** 20;
const BYTES_AT_ONCE = 32 * 2 ** 20;

/** By the parameters, which stay the same from one start of a server to the next. */
const limits = new WeakMap<ServerParams, RateLimit>();

/**
 * Gives the limit of how much one server may list, in bytes of memory. One that reports a change after
 * each call has its list asked for again for each, and what reads it holds up all other servers and
 * sessions.
 */
export function listingLimit(params: ServerParams): RateLimit {
  const known = limits.get(params);
  if (known !== undefined) return known;
  const limit = new RateLimit(BYTES_PER_SECOND, BYTES_AT_ONCE);
  limits.set(params, limit);
  return limit;
}
