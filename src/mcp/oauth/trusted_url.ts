/**
 * Which addresses a server may send us to. A server's metadata is hostile: it must not make the host
 * talk to what only the host can reach.
 *
 * A name is judged as it is written, not by what it resolves to: that may be another address by the
 * time of the request. What keeps requests from a service within the network that a public name was
 * made to lead to is TLS: it would have to show a certificate for that name.
 *
 * @module
 */

/** An address that a server named must not be used. The message is safe to show. */
export class UntrustedUrlError extends TypeError {
  override readonly name: string = "UntrustedUrlError";
}

/** Checks an address that a server, or the metadata it led to, has named. */
export function trustedUrl(what: string, text: string | URL, server: URL): URL {
  const url = URL.parse(text);
  const refuse = (why: string): never => {
    throw new UntrustedUrlError(`the ${what} that it names ${why}`);
  };
  if (url === null) return refuse("is no address");
  const place = placeOf(url.hostname);
  const own = placeOf(server.hostname);
  const isPlain = url.protocol === "http:" && place === "loopback" && own === "loopback";
  if (url.protocol !== "https:" && !isPlain) return refuse("is not https");
  if (url.username !== "" || url.password !== "") return refuse("has a user in it");
  if (url.hostname !== server.hostname && RANK[place] > Math.min(RANK[own], RANK.loopback)) {
    return refuse("is on this machine or its network, unlike the server");
  }
  return url;
}

/** Whether an address is one of this machine's own, so that nobody listens on the way to it. */
export function isLoopback(url: URL): boolean {
  return placeOf(url.hostname) === "loopback";
}

type Place = "public" | "private" | "loopback" | "forbidden";

/** How far inside a place is. Nobody is sent further inside than where the server is. */
const RANK: Readonly<Record<Place, number>> = { public: 0, private: 1, loopback: 2, forbidden: 3 };

/** Where a host is, as far as its name tells. URLs have addresses in one form only. */
function placeOf(hostname: string): Place {
  const host = hostname.toLowerCase().replace(/\.$/, "");
  if (host === "localhost" || host.endsWith(".localhost")) return "loopback";
  if (host.startsWith("[")) return placeOfV6(host.slice(1, -1));
  // Names that lead into the local network by definition
  if (!host.includes(".") || /\.(local|internal|home\.arpa)$/.test(host)) return "private";
  return /^\d+\.\d+\.\d+\.\d+$/.test(host) ? placeOfV4(host.split(".").map(Number)) : "public";
}

function placeOfV4([a = 0, b = 0]: readonly number[]): Place {
  if (a === 127) return "loopback";
  // Clouds keep their machines' secrets at link-local addresses.
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
