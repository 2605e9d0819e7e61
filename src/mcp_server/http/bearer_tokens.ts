import { sha256 } from "../../json/digest.ts";
import { sameToken } from "../../base/tokens.ts";

/** The owner of every request where there are no tokens. */
export const EVERYBODY = "everybody";

/** The tokens that open an HTTP server, each for its own owner. */
export class BearerTokens {
  readonly #owners: readonly (readonly [token: string, owner: string])[];

  constructor(tokens: readonly string[]) {
    if (tokens.length === 0) throw new TypeError("An HTTP server needs at least one bearer token");
    for (const token of tokens) {
      if (!TOKEN.test(token)) {
        throw new TypeError(
          "A bearer token must have 16 to 1000 characters from A-Z, a-z, 0-9 and -._~+/=",
        );
      }
    }
    // An owner is known again after a restart, and what is written of it opens nothing.
    this.#owners = [...new Set(tokens)].map((token) => [token, sha256(`owner ${token}`)]);
  }

  /** All who have a token. */
  get owners(): ReadonlySet<string> {
    return new Set(this.#owners.map(([, owner]) => owner));
  }

  /** Says whose a request is. */
  ownerOf(request: Request): string | undefined {
    const given = /^Bearer +(\S+)$/i.exec(request.headers.get("authorization") ?? "")?.[1] ?? "";
    let found: string | undefined;
    // All are compared, so that time does not tell which one is nearly right.
    for (const [token, owner] of this.#owners) if (sameToken(given, token)) found = owner;
    return found;
  }
}

/** What RFC 6750 allows in a token. */
const TOKEN = /^[A-Za-z0-9._~+/=-]{16,1000}$/;
