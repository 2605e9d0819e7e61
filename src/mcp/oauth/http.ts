import { readWhole } from "../../base/bytes.ts";
import { bodyOf } from "../../base/http.ts";
import { anySignal } from "../../base/signals.ts";
import { parsedJson } from "../../json/plain.ts";
import { withoutLength } from "../exact_fetch.ts";
import {
  type FetchLike,
  IssuerMismatchError,
  OAuthError,
  RegistrationRejectedError,
} from "../sdk.ts";

/** An answer of an authorization server, or an address from it, cannot be used. Safe to show. */
export class OAuthHttpError extends TypeError {
  override readonly name: string = "OAuthHttpError";
}

/** The largest metadata or token response. */
const MAX_BYTES = 256 * 1024;
/** The time limit of one request. */
const TIMEOUT_MS = 20_000;

/** Creates the `fetch` for metadata and tokens: only to trusted addresses, without redirects and the user's headers. */
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

/** Reads a body to its end, within the limits. */
async function bounded(response: Response, signal: AbortSignal): Promise<Response> {
  const { status, statusText, headers } = response;
  const body = bodyOf(response, signal);
  if (body === null) return response;
  const tooLong = () =>
    new OAuthHttpError(`the answer of its authorization server exceeds ${MAX_BYTES} bytes`);
  const bytes = await readWhole(body, { maxBytes: MAX_BYTES, tooLong });
  const whole = [204, 205, 304].includes(status) ? null : bytes;
  return new Response(whole, { status, statusText, headers: withoutLength(headers) });
}

/** The reason without the URL, which may contain secrets. */
function networkReason(error: unknown): string {
  if (!(error instanceof Error)) return "the network failed";
  if (error.cause instanceof Error) return networkReason(error.cause);
  return error.message.replace(/\(https?:\S*/g, "").replace(/\s+/g, " ").slice(0, 200);
}

/** An error code in the style of the standards. Any other text could be a token that a server put there. */
const CODE = /^[a-z_]{1,40}$/;

/** Says why an authorization server failed. The SDK's own errors quote bodies, which may contain a token. */
export function refusalOf(error: unknown): string {
  if (error instanceof OAuthError) {
    return `its authorization server refused: ${codeOf(error.code)}`;
  }
  if (error instanceof RegistrationRejectedError) {
    return `its authorization server did not register ipybox: HTTP ${error.status}` +
      codeInBody(error.body);
  }
  if (error instanceof IssuerMismatchError) {
    return error.kind === "metadata"
      ? "its authorization server's metadata names a different issuer"
      : "the answer came from a different authorization server than the one asked";
  }
  if (error instanceof OAuthHttpError) return error.message;
  return "the answer of its authorization server is invalid";
}

/** A server's error code, if it can be one. */
export function codeOf(code: string): string {
  return CODE.test(code) ? code : "with a non-standard error code";
}

function codeInBody(body: string): string {
  const { error } = Object(parsedJson(body));
  return typeof error === "string" ? `, ${codeOf(error)}` : "";
}

// Which addresses a server may send us to. A server's metadata is hostile: it must not make the
// host contact what only the host can reach.
//
// A name is judged as written, not by what it resolves to, which may change before the request. TLS
// protects services in the network that a public name was made to resolve to: they would need a
// certificate for that name.

/** Checks an address from a server or its metadata. */
export function trustedUrl(purpose: string, text: string | URL, server: URL): URL {
  const url = URL.parse(text);
  const refuse = (why: string): never => {
    throw new OAuthHttpError(`the ${purpose} that it names ${why}`);
  };
  if (url === null) return refuse("is not a URL");
  const place = placeOf(url.hostname);
  const own = placeOf(server.hostname);
  const isPlain = url.protocol === "http:" && place === "loopback" && own === "loopback";
  if (url.protocol !== "https:" && !isPlain) return refuse("is not https");
  if (url.username !== "" || url.password !== "") return refuse("contains a user name");
  if (url.hostname !== server.hostname && RANK[place] > Math.min(RANK[own], RANK.loopback)) {
    return refuse("is on this machine or its local network, unlike the server");
  }
  return url;
}

/** Whether a URL is on this machine, so that nobody can listen on the way to it. */
export function isLoopback(url: URL): boolean {
  return placeOf(url.hostname) === "loopback";
}

/** Whether a URL is at a host or a subdomain of it. A common parent domain proves nothing. */
export function isAtOrBelow(url: URL, owner: URL): boolean {
  const [host, top] = [hostOf(url), hostOf(owner)];
  return host === top || top.includes(".") && host.endsWith(`.${top}`);
}

/** A name, or an address with its port: each port of a machine may belong to another program. */
function hostOf({ hostname, host }: URL): string {
  const name = hostname.toLowerCase().replace(/\.$/, "");
  return /^[^.]*$|\.localhost$|\.\d+$|^\[/.test(name) ? host : name;
}

type Place = "public" | "private" | "loopback" | "forbidden";

/** How internal a place is. A server cannot send us to a place more internal than its own. */
const RANK: Readonly<Record<Place, number>> = { public: 0, private: 1, loopback: 2, forbidden: 3 };

/** Where a host is, judging by its name. URLs contain addresses in normalized form. */
function placeOf(hostname: string): Place {
  const host = hostname.toLowerCase().replace(/\.$/, "");
  if (host === "localhost" || host.endsWith(".localhost")) return "loopback";
  if (host.startsWith("[")) return placeOfV6(host.slice(1, -1));
  // Names that by definition belong to the local network
  if (!host.includes(".") || /\.(local|internal|home\.arpa)$/.test(host)) return "private";
  return /^\d+\.\d+\.\d+\.\d+$/.test(host) ? placeOfV4(host.split(".").map(Number)) : "public";
}

function placeOfV4([a = 0, b = 0]: readonly number[]): Place {
  if (a === 127) return "loopback";
  // Cloud providers serve their machines' credentials at link-local addresses.
  if (a === 0 || (a === 169 && b === 254) || a >= 224) return "forbidden";
  const isPrivate = a === 10 || (a === 172 && b >= 16 && b < 32) || (a === 192 && b === 168) ||
    (a === 100 && b >= 64 && b < 128);
  return isPrivate ? "private" : "public";
}

function placeOfV6(host: string): Place {
  if (host === "::1") return "loopback";
  const mapped = /^(?:::(?:ffff:(?:0:)?)?|64:ff9b::)([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(host);
  if (mapped !== null) {
    const [high, low] = [parseInt(mapped[1] ?? "", 16), parseInt(mapped[2] ?? "", 16)];
    return placeOfV4([high >> 8, high & 255, low >> 8, low & 255]);
  }
  if (host === "::" || /^fe[89ab]/.test(host) || host.startsWith("ff")) return "forbidden";
  return /^f[cde]/.test(host) ? "private" : "public";
}
