import { sha256 } from "../../json/digest.ts";
import { parsePlacement, type Placement } from "../../place/placement.ts";

/** A bearer token of an MCP server over HTTP, with settings. */
export interface HttpToken {
  /** The token: 16 to 1000 characters from A-Z, a-z, 0-9 and `-._~+/=`. */
  readonly token: string;
  /**
   * Where the kernels of its sessions run.
   *
   * @default the server's `placement`
   */
  readonly placement?: Placement | undefined;
  /**
   * How many concurrent sessions it may have, within the server's `maxSessions`.
   *
   * @default an equal share of the sessions that tokens with a number leave, at least one
   */
  readonly maxSessions?: number | undefined;
}

/** The settings of an owner. */
export type OwnerSettings = Omit<HttpToken, "token">;

/** How many concurrent sessions a server has by default, for all tokens together. */
export const DEFAULT_SESSIONS = 8;

/** The owner of all requests if there are no tokens. */
export const EVERYBODY = "everybody";

/** The tokens of an HTTP server; each is an owner of sessions. */
export class BearerTokens {
  /** The settings by owners. */
  readonly owners: Map<string, OwnerSettings> = new Map();

  /** Adds a token, or refuses it. Adding it again has no effect. */
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
    const owner = nameOf(token);
    const settings = {
      placement: placement && parsePlacement(placement, "A token's placement"),
      maxSessions,
    };
    const known = this.owners.get(owner);
    if (known !== undefined && [known, settings].some(hasAny)) {
      throw new TypeError("A bearer token with settings was given twice: keep one of them");
    }
    this.owners.set(owner, settings);
  }

  ownerOf(request: Request): string | undefined {
    const given = /^Bearer +(\S+)$/i.exec(request.headers.get("authorization") ?? "")?.[1] ?? "";
    const owner = nameOf(given); // a hash, so that the time of the look-up reveals nothing
    return this.owners.has(owner) ? owner : undefined;
  }
}

/** The name of a token's owner: the same after a restart, and useless to its readers. */
function nameOf(token: string): string {
  return sha256(`owner ${token}`);
}

function hasAny(settings: OwnerSettings): boolean {
  return Object.values(settings).some((setting) => setting !== undefined);
}

/** The characters that RFC 6750 allows in a token. */
const TOKEN = /^[A-Za-z0-9._~+/=-]{16,1000}$/;
