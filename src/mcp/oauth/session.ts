import { ConfigError, McpConnectionError, McpLoginRequiredError } from "../../base/errors.ts";
import { Mutex } from "../../base/mutex.ts";
import { anySignal } from "../../base/signals.ts";
import { WaitCount } from "../../base/deadline.ts";
import { exactFetch } from "../exact_fetch.ts";
import { shellWord } from "../../base/shell_word.ts";
import {
  computeScopeUnion,
  extractWWWAuthenticateParams,
  type FetchLike,
  isStrictScopeSuperset,
  OAuthError,
} from "../sdk.ts";
import {
  type Authority,
  discoverAuthority,
  fetchClientToken,
  refreshLogin,
  sameIssuer,
} from "./client.ts";
import type { OAuthParams } from "./params.ts";
import { isLoopback, oauthFetch, refusalOf } from "./http.ts";
import { logIn, type LoginOptions } from "./login.ts";
import { type Login, LoginStore } from "./store.ts";

/** Options of {@linkcode OAuthSession.open}. */
interface OAuthSessionOptions {
  /** The registered server's name. */
  readonly serverName: string;
  readonly server: URL;
  /** The user's parameters. */
  readonly params: OAuthParams;
  /** The folder where executed code writes. */
  readonly workspace?: string;
  /** The folder of all logins, if it is not the default one. */
  readonly loginsFolder?: string;
  /** Lets a person log in. Without it, a required login is an error. */
  readonly login?: LoginOptions;
}

/** A request that the server refused. */
interface Refusal {
  readonly token: string | undefined;
  /** The server's challenge. */
  readonly challenge: Challenge;
  /** The kinds of earlier challenges to the same request. */
  readonly before: readonly Challenge["kind"][];
}

/**
 * The login to one remote server. It is pending while a person logs in. Tokens stay in this class and in the
 * {@linkcode LoginStore}.
 */
export class OAuthSession extends WaitCount {
  readonly #options: OAuthSessionOptions;
  readonly #renewals = new Mutex();
  readonly #store: LoginStore | undefined;
  #token: string | undefined;
  /** The token from a login that was just made. If it is rejected, there is no better one. */
  #given: string | undefined;
  #failure: McpConnectionError | undefined;
  #loggedIn = false;

  private constructor(options: OAuthSessionOptions, store: LoginStore | undefined) {
    super();
    this.#options = options;
    this.#store = store;
  }

  /** Opens a session with the stored login, if any. */
  static async open(options: OAuthSessionOptions): Promise<OAuthSession> {
    const { server, params: { clientId }, workspace, loginsFolder: folder, login } = options;
    const store = LoginStore.find(server, { clientId, workspace, folder });
    const session = new OAuthSession(options, store);
    if (login?.anew !== true) session.#token = (await store?.read())?.accessToken;
    return session;
  }

  /** Why the server cannot be used without a login, until a request succeeds again. */
  get failure(): McpConnectionError | undefined {
    return this.#failure;
  }

  /** Sends a request with the token, and again with another one if the server rejects it. */
  readonly fetch: FetchLike = async (url, init) => {
    // The token is only for this server, even after a redirect.
    if (new URL(url).origin !== this.#options.server.origin) return await exactFetch(url, init);
    const before: Challenge["kind"][] = [];
    for (;;) {
      const token = this.#token;
      const response = await exactFetch(url, withToken(init, token));
      const challenge = readChallenge(response);
      if (challenge === undefined) {
        if (response.ok) this.#failure = undefined;
        return response;
      }
      // Ending a session is not worth a login.
      if (init?.method === "DELETE") return response;
      const refusal = { token, challenge, before: [...before] };
      this.#failure = await this.#renew(refusal, init?.signal ?? undefined);
      if (this.#failure !== undefined) return response;
      before.push(challenge.kind);
    }
  };

  /** Gets another token after one was rejected, or says why that failed. */
  async #renew(
    refusal: Refusal,
    signal: AbortSignal | undefined,
  ): Promise<McpConnectionError | undefined> {
    using _turn = await this.#renewals.acquire(signal);
    const { token, challenge, before } = refusal;
    const again = before.filter((kind) => kind === challenge.kind).length;
    // A rejected token from a refresh can be replaced by a login; one from a login cannot.
    const isEnd = challenge.kind === "scope" || token === this.#given || again > 1;
    if (again > 0 && isEnd) return this.#error("rejected the login that was just made");
    if (this.#token !== token) return undefined; // another request has renewed it
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
    // A login from another authorization server is useless for this one, which must not see it
    // either.
    if (challenge.kind === "login" && isFrom(authority, stored)) {
      if (await this.#refresh(refused, authority, fetchFn, signal)) return;
    }
    if (login === undefined) throw await this.#loginRequired(challenge);
    await this.#logIn(challenge, authority, login, signal);
  }

  /** Uses a stored token that another process may have obtained in the meantime. */
  #takeOver(stored: Login | undefined, refused: string | undefined): boolean {
    if (stored?.accessToken === undefined || stored.accessToken === refused) return false;
    this.#token = stored.accessToken;
    return true;
  }

  /** Refreshes the token, in one process at a time: many servers accept a refresh token only once. */
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
      else await store.remove(); // its client is no longer known
      return false;
    }
  }

  async #logIn(
    challenge: Challenge,
    authority: Authority,
    login: LoginOptions,
    signal: AbortSignal,
  ): Promise<void> {
    const { serverName, server, params } = this.#options;
    const store = this.#requireStore();
    const stored = await store.read();
    const before = isFrom(authority, stored) ? stored : undefined;
    const scope = this.#scope(challenge, authority, before);
    const isPointless = challenge.kind === "scope" &&
      !isStrictScopeSuperset(scope, before?.scope);
    if (isPointless) throw this.#error("rejected scopes that the login requested");
    const fetchFn = oauthFetch(server, signal);
    this.count(1);
    try {
      const context = { serverName, server, params, scope, before, login, fetchFn, signal };
      const made = await logIn(authority, context);
      using _lock = await store.lock(signal);
      await store.write(made);
      this.#token = this.#given = made.accessToken;
      this.#loggedIn = true;
    } finally {
      this.count(-1);
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

  /** Creates the error that says how to log in, and stores the scopes that the login needs. */
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
    const problem = kind === "login" ? "requires a login" : "requires more than the login grants";
    return new McpLoginRequiredError(serverName, problem, `ipybox login ${serverName}${at}`);
  }

  #requireStore(): LoginStore {
    if (this.#store !== undefined) return this.#store;
    throw this.#error(
      "requires a login, which cannot be stored: allow reading HOME and XDG_STATE_HOME, and reading " +
        "and writing ~/.local/state/ipybox",
    );
  }

  #error(problem: string): McpConnectionError {
    const { serverName } = this.#options;
    return new McpConnectionError(serverName, `MCP server "${serverName}" ${problem}`);
  }
}

/** Whether a login came from an authorization server. */
function isFrom({ issuer }: Authority, login: Login | undefined): login is Login {
  return login !== undefined && sameIssuer(login.issuer, issuer);
}

/** The error codes for a login that has ended. */
const ENDED: readonly string[] = ["invalid_grant", "invalid_client", "unauthorized_client"];

function withToken(init: RequestInit | undefined, token: string | undefined): RequestInit {
  const headers = new Headers(init?.headers);
  if (token !== undefined) headers.set("authorization", `Bearer ${token}`);
  return { ...init, headers };
}

/** Scopes in the syntax of RFC 6749. Other texts could be anything. */
const SCOPES = /^[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*$/;
const MAX_LENGTH = 4096;

/** A server's scopes, if they are valid. */
export function checkedScope(text: string | undefined): string | undefined {
  const scope = text?.trim();
  return scope !== undefined && scope.length <= MAX_LENGTH && SCOPES.test(scope)
    ? scope
    : undefined;
}

/** The sources of a login's scopes. */
interface ScopeSources {
  /** The user's setting. */
  readonly configured?: string;
  /** The scopes in the server's challenge to log in. */
  readonly challenged?: string;
  /** The scopes that the server found missing in the current login. */
  readonly lacking?: string;
  /** The scopes that the server supports. */
  readonly supported?: readonly string[];
  /** The scopes of the previous login, and those found missing in it. */
  readonly before?: string;
  /** The scopes that the authorization server supports. */
  readonly offered?: readonly string[];
}

/** Chooses the scopes of a login: no more than the server requests, and no fewer than before. */
export function chooseScope(sources: ScopeSources): string | undefined {
  const { configured, challenged, lacking, supported, before, offered } = sources;
  const asked = checkedScope(challenged) ?? checkedScope(supported?.join(" "));
  const scope = computeScopeUnion(before, configured ?? asked, checkedScope(lacking));
  // Without it, some authorization servers issue no refresh token, and the login soon expires.
  const lasting = scope !== undefined && offered?.includes("offline_access");
  return lasting ? computeScopeUnion(scope, "offline_access") : scope;
}

/** A server's demand for a login. */
interface Challenge {
  /** Whether a login is missing or lacks scopes. */
  readonly kind: "login" | "scope";
  /** The scopes that it requests. */
  readonly scope?: string;
  readonly resourceMetadataUrl?: URL;
}

/** Reads the challenge in a server's response, if any. */
export function readChallenge(response: Response): Challenge | undefined {
  const { scope, error, resourceMetadataUrl } = extractWWWAuthenticateParams(response);
  if (response.status === 401) return { kind: "login", scope, resourceMetadataUrl };
  if (response.status !== 403 || error !== "insufficient_scope") return undefined;
  return { kind: "scope", scope, resourceMetadataUrl };
}
