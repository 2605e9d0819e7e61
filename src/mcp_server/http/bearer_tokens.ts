import { sha256 } from "../../json/digest.ts";
import { sameToken } from "../../base/tokens.ts";
import { parsePlacement, type Placement } from "../../placement/placement.ts";

/** A bearer token of an MCP server over HTTP, with settings of its own. */
export interface HttpToken {
  /** The token: 16 to 1000 characters from A-Z, a-z, 0-9 and `-._~+/=`. */
  readonly token: string;
  /**
   * Where the kernels of its sessions run.
   *
   * @default as the server's `placement` says
   */
  readonly placement?: Placement | undefined;
  /**
   * How many concurrent sessions it may have, as long as the server's `maxSessions` allows.
   *
   * @default an equal share of what the tokens with a number leave of `maxSessions`, one at least
   */
  readonly maxSessions?: number | undefined;
}

/** What the sessions of an owner may be. */
export type OwnerSettings = Omit<HttpToken, "token">;

/** The owner of every request where there are no tokens. */
export const EVERYBODY = "everybody";

/** The tokens that open an HTTP server, each for its own owner. */
export class BearerTokens {
  readonly #owners = new Map<string, string>();
  readonly #settings = new Map<string, OwnerSettings>();

  /** All who have a token, and what their sessions may be. */
  get owners(): ReadonlyMap<string, OwnerSettings> {
    return this.#settings;
  }

  /**
   * Adds a token. One that is there already is added once.
   *
   * @throws {TypeError} It is too easy to guess, or there are two opinions on its settings.
   * @throws {RangeError} Its number of sessions is none.
   * @throws {ConfigError} Its placement cannot be used.
   */
  add(entry: string | HttpToken): void {
    const { token, placement, maxSessions } = typeof entry === "string" ? { token: entry } : entry;
    if (!TOKEN.test(token)) {
      throw new TypeError(
        "A bearer token must have 16 to 1000 characters from A-Z, a-z, 0-9 and -._~+/=",
      );
    }
    if (maxSessions !== undefined && !(Number.isSafeInteger(maxSessions) && maxSessions > 0)) {
      throw new RangeError(`A token's maxSessions must be a whole number above 0: ${maxSessions}`);
    }
    // An owner is known again after a restart, and what is written of it opens nothing.
    const owner = sha256(`owner ${token}`);
    const settings = {
      placement: placement && parsePlacement(placement, "A token's placement"),
      maxSessions,
    };
    const known = this.#settings.get(owner);
    if (known !== undefined && [known, settings].some(hasAny)) {
      throw new TypeError("A bearer token with settings is there twice: keep one of them");
    }
    this.#owners.set(token, owner);
    this.#settings.set(owner, settings);
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

function hasAny(settings: OwnerSettings): boolean {
  return Object.values(settings).some((setting) => setting !== undefined);
}

/** What RFC 6750 allows in a token. */
const TOKEN = /^[A-Za-z0-9._~+/=-]{16,1000}$/;
