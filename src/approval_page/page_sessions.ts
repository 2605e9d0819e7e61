import { createHash } from "node:crypto";

/** What a redeemed code gives: where its page is, and what opens it. */
export interface PageSession {
  /** The random part of the page's path. */
  readonly id: string;
  /** The value of its cookie. */
  readonly token: string;
}

/** A code that has not been used yet. */
interface Invitation {
  /** When it is void, by `performance.now()`. */
  readonly until: number;
  /** Called once it is used or void. */
  readonly onEnd: (used: boolean) => void;
}

/** More are not kept: the oldest make room. */
const MAX_INVITATIONS = 32;
const MAX_SESSIONS = 64;

/**
 * The one-time codes and the sessions that they were exchanged for. Secrets are kept as hashes, so
 * that looking one up tells nothing by the time it takes.
 */
export class PageSessions {
  readonly #invitations = new Map<string, Invitation>();
  readonly #sessions = new Map<string, string>();

  /** Makes a code. */
  invite(lifeMs: number, onEnd: (used: boolean) => void): string {
    const code = randomCode();
    this.#invitations.set(hash(normalized(code)), { until: performance.now() + lifeMs, onEnd });
    this.#dropOldInvitations();
    return code;
  }

  /** Exchanges a code for a session. A code works once. */
  redeem(code: string): PageSession | undefined {
    const key = hash(normalized(code));
    const invitation = this.#invitations.get(key);
    if (invitation === undefined) return undefined;
    this.#invitations.delete(key);
    const used = performance.now() <= invitation.until;
    if (!used) {
      invitation.onEnd(false);
      return undefined;
    }
    const session = { id: randomHex(16), token: randomHex(32) };
    this.#sessions.set(session.id, hash(session.token));
    const [oldest] = this.#sessions.keys();
    if (this.#sessions.size > MAX_SESSIONS && oldest !== undefined) this.#sessions.delete(oldest);
    invitation.onEnd(true);
    return session;
  }

  /** Whether there is a session with this id. */
  has(id: string): boolean {
    return this.#sessions.has(id);
  }

  /** Whether a cookie's value belongs to the session. */
  admits(id: string, token: string): boolean {
    return this.#sessions.get(id) === hash(token);
  }

  #dropOldInvitations(): void {
    for (const [key, { until, onEnd }] of this.#invitations) {
      const void_ = until < performance.now();
      if (!void_ && this.#invitations.size <= MAX_INVITATIONS) continue;
      this.#invitations.delete(key);
      onEnd(false);
    }
  }
}

/** Without the letters that look like digits or like each other: people may type it. */
const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** 80 random bits in groups of four characters: beyond guessing while it is good. */
function randomCode(): string {
  const letters = [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => ALPHABET.charAt(byte % ALPHABET.length)); // 256 is a multiple of 32
  return letters.join("").replace(/.{4}(?=.)/g, "$&-");
}

function normalized(code: string): string {
  return code.replace(/[\s-]/g, "").toUpperCase();
}

function randomHex(bytes: number): string {
  return crypto.getRandomValues(new Uint8Array(bytes)).toHex();
}

function hash(secret: string): string {
  return createHash("sha256").update(secret).digest("hex");
}
