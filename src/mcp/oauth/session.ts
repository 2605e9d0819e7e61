import { ConfigError, McpConnectionError, McpLoginRequiredError } from "../../base/errors.ts";
import { Mutex } from "../../base/mutex.ts";
import { anySignal } from "../../base/signals.ts";
import { exactFetch } from "../exact_fetch.ts";
import { shellWord } from "../../base/shell_word.ts";
import {
  computeScopeUnion,
  extractWWWAuthenticateParams,
  type FetchLike,
  isStrictScopeSuperset,
  OAuthError,
} from "../sdk.ts";
import { type Authority, discoverAuthority, sameIssuer } from "./client.ts";
import type { OAuthParams } from "./params.ts";
import { isLoopback, oauthFetch, refusalOf } from "./http.ts";
import { logIn, type LoginOptions } from "./login.ts";
import { fetchClientToken, type Login, LoginStore, refreshLogin } from "./store.ts";

/** Options of {@linkcode OAuthSession.open}. */
interface OAuthSessionOptions {
  /** The registered server's name. */
  readonly serverName: string;
  /** Its address. */
  readonly server: URL;
  /** What the user has set. */
  readonly params: OAuthParams;
  /** The folder where executed code writes. */
  readonly workspace?: string;
  /** The folder of all logins, where it is not the usual one. */
  readonly loginsFolder?: string;
  /** For whom answers come, as for `exactFetch()`. */
  readonly owner: object;
  /** Lets a person log in. Without it, a login that is needed is an error. */
  readonly login?: LoginOptions;
  /** Called when waiting for a person begins and ends. */
  readonly onWaiting?: (waiting: boolean) => void;
}

/** A request that the server refused. */
interface Refusal {
  /** The token that it carried. */
  readonly token: string | undefined;
  /** What the server said. */
  readonly challenge: Challenge;
  /** For what the same request was refused before. */
  readonly before: readonly Challenge["kind"][];
}

/**
 * The login to one remote server: puts the token into requests, and gets another one where the server
 * refuses it. Tokens stay in here and in the {@linkcode LoginStore}.
 */
export class OAuthSession {
  readonly #options: OAuthSessionOptions;
  readonly #renewals = new Mutex();
  readonly #store: LoginStore | undefined;
  readonly #fetch: FetchLike;
  #token: string | undefined;
  /** The token that a login gave, which nothing better can replace. */
  #given: string | undefined;
  #failure: McpConnectionError | undefined;
  #loggedIn = false;

  private constructor(options: OAuthSessionOptions, store: LoginStore | undefined) {
    this.#options = options;
    this.#store = store;
    this.#fetch = exactFetch(options.owner);
  }

  /** Takes up the login, where there is one. */
  static async open(options: OAuthSessionOptions): Promise<OAuthSession> {
    const { server, params: { clientId }, workspace, loginsFolder: folder, login } = options;
    const store = await LoginStore.find(server, { clientId, workspace, folder });
    const session = new OAuthSession(options, store);
    if (login?.anew !== true) session.#token = (await store?.read())?.accessToken;
    return session;
  }

  /** Why the server could not be used for want of a login, until a request succeeds again. */
  get failure(): McpConnectionError | undefined {
    return this.#failure;
  }

  /** Whether a person has logged in. */
  get loggedIn(): boolean {
    return this.#loggedIn;
  }

  /** Sends a request to the server with the token, and again with another one where it is refused. */
  readonly fetch: FetchLike = async (url, init) => {
    // The token is for this server alone, wherever a redirect leads.
    if (new URL(url).origin !== this.#options.server.origin) return await this.#fetch(url, init);
    const before: Challenge["kind"][] = [];
    for (;;) {
      const token = this.#token;
      const response = await this.#fetch(url, withToken(init, token));
      const challenge = readChallenge(response);
      if (challenge === undefined) {
        if (response.ok) this.#failure = undefined;
        return response;
      }
      // The farewell to a session is worth no login.
      if (init?.method === "DELETE") return response;
      const refusal = { token, challenge, before: [...before] };
      this.#failure = await this.#renew(refusal, init?.signal ?? undefined);
      if (this.#failure !== undefined) return response;
      before.push(challenge.kind);
    }
  };

  /** Gets another token than the one that was refused, and says why where that fails. */
  async #renew(
    refusal: Refusal,
    signal: AbortSignal | undefined,
  ): Promise<McpConnectionError | undefined> {
    using _turn = await this.#renewals.acquire(signal);
    const { token, challenge, before } = refusal;
    const again = before.filter((kind) => kind === challenge.kind).length;
    // What a refresh gave may be refused where a login helps, but not what a login gave.
    const isEnd = challenge.kind === "scope" || token === this.#given || again > 1;
    if (again > 0 && isEnd) return this.#error("rejected the login that was just made");
    if (this.#token !== token) return undefined; // another request has got one
    try {
      await this.#getToken(refusal, anySignal(signal));
      return undefined;
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof McpConnectionError) return error;
      if (error instanceof ConfigError) {
        return this.#error(`cannot be logged in to: ${error.message}`);
      }
      return this.#error(`cannot be logged in to: ${refusalOf(error)}`);
    }
  }

  async #getToken(refusal: Refusal, signal: AbortSignal): Promise<void> {
    const { token: refused, challenge, before } = refusal;
    const { server, params, login } = this.#options;
    if (server.protocol !== "https:" && !isLoopback(server)) {
      throw this.#error("requires a login, but is not https: others could read the token");
    }
    const fetchFn = oauthFetch(server, signal);
    if (params.grant === "client_credentials") {
      const authority = await discoverAuthority(server, challenge, params, fetchFn);
      const scope = this.#scope(challenge, authority, undefined);
      this.#token = this.#given = await fetchClientToken(authority, params, scope, fetchFn);
      return;
    }
    const store = this.#requireStore();
    const isUseless = before.includes("login") || login?.anew === true && !this.#loggedIn;
    const stored = isUseless ? undefined : await store.read();
    if (this.#takeOver(stored, refused)) return;
    const authority = await discoverAuthority(server, challenge, params, fetchFn);
    // What another authorization server gave is worth nothing at this one, and none of its business.
    const own = stored !== undefined && sameIssuer(stored.issuer, authority.issuer)
      ? stored
      : undefined;
    if (challenge.kind === "login" && own !== undefined) {
      if (await this.#refresh(refused, authority, fetchFn, signal)) return;
    }
    if (login === undefined) throw await this.#loginRequired(challenge);
    await this.#logIn(challenge, authority, login, signal);
  }

  /** Another process may have logged in or refreshed in the meantime. */
  #takeOver(stored: Login | undefined, refused: string | undefined): boolean {
    if (stored?.accessToken === undefined || stored.accessToken === refused) return false;
    this.#token = stored.accessToken;
    return true;
  }

  /** Refreshes the token, one process at a time: many authorization servers take each one once. */
  async #refresh(
    refused: string | undefined,
    authority: Authority,
    fetchFn: FetchLike,
    signal: AbortSignal,
  ): Promise<boolean> {
    const store = this.#requireStore();
    using _lock = await store.lock(signal);
    const login = await store.read();
    if (this.#takeOver(login, refused)) return true;
    if (login?.refreshToken === undefined) return false;
    const { refreshToken } = login;
    try {
      const { params } = this.#options;
      const fresh = await refreshLogin({ ...login, refreshToken }, authority, params, fetchFn);
      await store.write(fresh);
      this.#token = fresh.accessToken;
      return true;
    } catch (error) {
      if (!(error instanceof OAuthError) || !ENDED.includes(error.code)) throw error;
      const { accessToken: _access, refreshToken: _refresh, ...rest } = login;
      if (error.code === "invalid_grant") await store.write(rest);
      else await store.remove(); // its client is not known any more
      return false;
    }
  }

  async #logIn(
    challenge: Challenge,
    authority: Authority,
    login: LoginOptions,
    signal: AbortSignal,
  ): Promise<void> {
    const { serverName, server, params, onWaiting } = this.#options;
    const store = this.#requireStore();
    const stored = await store.read();
    const before = stored !== undefined && sameIssuer(stored.issuer, authority.issuer)
      ? stored
      : undefined;
    const scope = this.#scope(challenge, authority, before);
    const isPointless = challenge.kind === "scope" &&
      !isStrictScopeSuperset(scope, before?.scope);
    if (isPointless) throw this.#error("rejected scopes that the login requested");
    const fetchFn = oauthFetch(server, signal);
    onWaiting?.(true);
    try {
      const context = { serverName, server, params, scope, before, login, fetchFn, signal };
      const made = await logIn(authority, context);
      using _lock = await store.lock(signal);
      await store.write(made);
      this.#token = this.#given = made.accessToken;
      this.#loggedIn = true;
    } finally {
      onWaiting?.(false);
    }
  }

  #scope(
    { kind, scope }: Challenge,
    { metadata, scopes }: Authority,
    before: Login | undefined,
  ): string | undefined {
    return chooseScope({
      configured: this.#options.params.scope,
      challenged: kind === "login" ? scope : undefined,
      lacking: kind === "scope" ? scope : undefined,
      supported: scopes,
      before: computeScopeUnion(before?.scope, before?.lackingScope),
      offered: this.#options.params.grant === "client_credentials"
        ? undefined
        : metadata?.scopes_supported,
    });
  }

  /** Says who can log in, and remembers what the login has to be for. */
  async #loginRequired({ kind, scope }: Challenge): Promise<McpLoginRequiredError> {
    const { serverName, workspace } = this.#options;
    const lacking = checkedScope(scope);
    if (kind === "scope" && lacking !== undefined) {
      const store = this.#requireStore();
      using _lock = await store.lock();
      const login = await store.read();
      const lackingScope = computeScopeUnion(login?.lackingScope, lacking);
      if (login !== undefined) await store.write({ ...login, lackingScope });
    }
    const at = workspace === undefined ? "" : ` --workspace ${shellWord(workspace)}`;
    const what = kind === "login" ? "requires a login" : "requires more than the login grants";
    return new McpLoginRequiredError(serverName, what, `ipybox login ${serverName}${at}`);
  }

  #requireStore(): LoginStore {
    if (this.#store !== undefined) return this.#store;
    throw this.#error(
      "requires a login, which cannot be stored: allow reading HOME and XDG_STATE_HOME, and reading " +
        "and writing ~/.local/state/ipybox",
    );
  }

  #error(what: string): McpConnectionError {
    const { serverName } = this.#options;
    return new McpConnectionError(serverName, `MCP server "${serverName}" ${what}`);
  }
}

/** The authorization server's words for a login that is over. */
const ENDED: readonly string[] = ["invalid_grant", "invalid_client", "unauthorized_client"];

function withToken(init: RequestInit | undefined, token: string | undefined): RequestInit {
  const headers = new Headers(init?.headers);
  if (token !== undefined) headers.set("authorization", `Bearer ${token}`);
  return { ...init, headers };
}

/** Scopes as RFC 6749 has them. Others could be anything. */
const SCOPES = /^[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*$/;
const MAX_LENGTH = 4096;

/** Checks scopes that a server named. */
export function checkedScope(text: string | undefined): string | undefined {
  const scope = text?.trim();
  return scope !== undefined && scope.length <= MAX_LENGTH && SCOPES.test(scope)
    ? scope
    : undefined;
}

/** What a login's scopes are chosen from. */
interface ScopeSources {
  /** What the user set. */
  readonly configured?: string;
  /** What the server asked for when it wanted a login. */
  readonly challenged?: string;
  /** What the server asked for when the present login did not suffice. */
  readonly lacking?: string;
  /** What the server has. */
  readonly supported?: readonly string[];
  /** What the login so far was for, or was found to lack. */
  readonly before?: string;
  /** What the authorization server has. */
  readonly offered?: readonly string[];
}

/** Chooses the scopes of a login: no more than the server asks for, and no less than before. */
export function chooseScope(sources: ScopeSources): string | undefined {
  const { configured, challenged, lacking, supported, before, offered } = sources;
  const asked = checkedScope(challenged) ?? checkedScope(supported?.join(" "));
  const scope = computeScopeUnion(before, configured ?? asked, checkedScope(lacking));
  // Without it some authorization servers give no refresh token, and the login soon ends.
  const lasting = scope !== undefined && offered?.includes("offline_access");
  return lasting ? computeScopeUnion(scope, "offline_access") : scope;
}

/** What a server said when it wanted a login. */
export interface Challenge {
  /** Whether a login is missing, or its scopes do not suffice. */
  readonly kind: "login" | "scope";
  /** The scopes that it asks for. */
  readonly scope?: string;
  /** Where its metadata is, when it says so. */
  readonly resourceMetadataUrl?: URL;
}

/** Reads what a server answered to a request. */
export function readChallenge(response: Response): Challenge | undefined {
  const { scope, error, resourceMetadataUrl } = extractWWWAuthenticateParams(response);
  if (response.status === 401) return { kind: "login", scope, resourceMetadataUrl };
  if (response.status !== 403 || error !== "insufficient_scope") return undefined;
  return { kind: "scope", scope, resourceMetadataUrl };
}
