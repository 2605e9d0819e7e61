import { createHash } from "node:crypto";
import { Deadline } from "../../base/deadline.ts";
import { abortable, anySignal, settledWithin } from "../../base/signals.ts";
import { randomToken, sameToken } from "../../base/tokens.ts";
import {
  exchangeAuthorization,
  type FetchLike,
  startAuthorization,
  validateAuthorizationResponseIssuer,
} from "../sdk.ts";
import {
  type Authority,
  checkTokens,
  chooseClient,
  clientInformation,
  keyAuthentication,
} from "./client.ts";
import { codeOf, isAtOrBelow, OAuthHttpError, trustedUrl } from "./http.ts";
import type { OAuthParams } from "./params.ts";
import type { Login } from "./store.ts";

/** A login page to show to a person. */
export interface LoginRequest {
  /** The registered server. */
  readonly serverName: string;
  /**
   * The server's host, which receives the access that the person grants on the page, whichever host
   * the page is on.
   */
  readonly serverHost: string;
  /** The page: https, or on this machine if the server is too. It contains no secret. */
  readonly url: URL;
  /** Aborts when the login is no longer needed. */
  readonly signal: AbortSignal;
}

/** How a person logs in to remote servers. */
export interface LoginOptions {
  /** Shows a person the page. The login continues when the browser is redirected back. */
  readonly show: (request: LoginRequest) => void | Promise<void>;
  /**
   * Whether to log in even if there is a login already.
   *
   * @default {false}
   */
  readonly anew?: boolean;
  /**
   * The time limit for the person, in milliseconds.
   *
   * @default {300000}
   */
  readonly timeoutMs?: number;
}

interface LoginContext {
  /** The registered server's name. */
  readonly serverName: string;
  readonly server: URL;
  /** The user's parameters. */
  readonly params: OAuthParams;
  readonly scope?: string;
  /** The previous login. */
  readonly before?: Login;
  /** Shows the page. */
  readonly login: LoginOptions;
  /** Sends requests. */
  readonly fetchFn: FetchLike;
  readonly signal: AbortSignal;
}

const TIMEOUT_MS = 5 * 60_000;

/**
 * Lets a person log in with a browser: the authorization code grant with PKCE.
 *
 * Everything that belongs to one login stays in this function, so that the response of another
 * authorization server or another login is never mistaken for it.
 */
export async function logIn(authority: Authority, context: LoginContext): Promise<Login> {
  const { serverName, server, params, scope, before, login, fetchFn } = context;
  const { issuer, metadata, resource } = authority;
  using deadline = new Deadline(login.timeoutMs ?? TIMEOUT_MS);
  const signal = anySignal(context.signal, deadline.signal);
  const state = randomToken();
  await using listener = listen(state, params, before);
  const { redirectUri } = listener;
  const client = await chooseClient(authority, { params, before, redirectUri, scope }, fetchFn);
  const common = {
    clientInformation: clientInformation(client),
    metadata,
    resource,
  };
  const { authorizationUrl, codeVerifier } = await startAuthorization(issuer, {
    ...common,
    redirectUrl: redirectUri,
    state,
    scope,
  });
  const url = trustedUrl("login page", authorizationUrl, server);
  if (params.issuer === undefined) requireOwnPage(url, authority);
  await login.show({ serverName, serverHost: server.host, url, signal });
  const { code, iss, error } = await listener.received(signal).catch((reason: unknown) => {
    if (context.signal.aborted || !deadline.passed) throw reason;
    throw new OAuthHttpError("the login timed out");
  });
  // Validated before anything else in the response is trusted, even an error (RFC 9207).
  validateAuthorizationResponseIssuer({
    iss,
    expectedIssuer: metadata?.issuer,
    issParameterSupported: metadata?.authorization_response_iss_parameter_supported === true,
  });
  if (code === undefined) {
    throw new OAuthHttpError(`its authorization server refused: ${codeOf(error ?? "")}`);
  }
  const addClientAuthentication = keyAuthentication(params);
  const tokens = await exchangeAuthorization(issuer, {
    ...common,
    authorizationCode: code,
    codeVerifier,
    redirectUri,
    fetchFn,
    iss,
    addClientAuthentication,
  });
  return { server: server.href, issuer, ...client, ...checkTokens(tokens), scope };
}

/** Refuses the page of a service that people trust, if another server would get the access. */
function requireOwnPage(page: URL, { issuer, metadata }: Authority): void {
  const receiver = URL.parse(metadata?.token_endpoint ?? issuer);
  const isOwn = [receiver, URL.parse(issuer)].some((own) =>
    own !== null && (isAtOrBelow(page, own) || isAtOrBelow(own, page))
  );
  if (isOwn) return;
  throw new OAuthHttpError(
    `its login page belongs to ${page.host}, but the login would go to ${receiver?.host}: if you trust ` +
      "that host with the login, specify its authorization server with --issuer",
  );
}

/** Listens on the configured port, or else prefers the one that the client was registered with. */
function listen(state: string, params: OAuthParams, before: Login | undefined): CallbackListener {
  const { callbackPort } = params;
  if (callbackPort !== undefined) {
    const listener = CallbackListener.open(state, callbackPort);
    if (listener !== undefined) return listener;
    throw new OAuthHttpError(`port ${callbackPort} of this machine is in use by another program`);
  }
  const port = Number(URL.parse(before?.redirectUri ?? "")?.port ?? 0);
  const listener = CallbackListener.open(state, port) ?? CallbackListener.open(state, 0);
  if (listener === undefined) throw new OAuthHttpError("no port of this machine is free");
  return listener;
}

const PATH = "/callback";
const FAREWELL_MS = 1000;

/** The parameters of the authorization server's redirect. */
interface Callback {
  /** The code to exchange for tokens. */
  readonly code?: string;
  /** The identity that the server claims (RFC 9207). */
  readonly iss?: string;
  /** Why there is no code. */
  readonly error?: string;
}

/**
 * Waits on this machine for the browser's redirect after a login.
 *
 * Any program on this machine and any page in its browser can send requests here. Only one with the
 * login's `state` counts, and others do not end the wait.
 */
class CallbackListener implements AsyncDisposable {
  /** The URL to redirect the browser to. */
  readonly redirectUri: string;

  readonly #server: Deno.HttpServer<Deno.NetAddr>;
  readonly #host: string;
  readonly #state: string;
  readonly #received = Promise.withResolvers<Callback>();

  private constructor(port: number, state: string) {
    this.#state = state;
    this.#received.promise.catch(() => {}); // perhaps before anybody waits
    this.#server = Deno.serve(
      { hostname: "127.0.0.1", port, onListen() {} },
      (request) => this.#answer(request),
    );
    this.#host = `127.0.0.1:${this.#server.addr.port}`;
    this.redirectUri = `http://${this.#host}${PATH}`;
  }

  /** Starts listening; `undefined` if the port is in use. */
  static open(state: string, port: number): CallbackListener | undefined {
    try {
      return new CallbackListener(port, state);
    } catch (error) {
      if (error instanceof Deno.errors.AddrInUse) return undefined;
      throw error;
    }
  }

  /** Waits for the redirect. */
  async received(signal: AbortSignal): Promise<Callback> {
    return await abortable(this.#received.promise, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = this.#server.shutdown(); // lets the browser receive the page
    if (!await settledWithin(ended, FAREWELL_MS)) this.#server.unref();
  }

  #answer(request: Request): Response {
    const url = new URL(request.url);
    // Rejects pages of another host whose name was made to resolve to this machine.
    if (request.headers.get("host") !== this.#host) return page(421, "Wrong host.");
    if (url.pathname !== PATH) return page(404, "There is nothing here.");
    if (request.method !== "GET") return page(405, "This page is for browsers.");
    const one = (name: string): string | undefined => {
      const values = url.searchParams.getAll(name);
      return values.length === 1 ? values[0] : undefined;
    };
    const state = one("state");
    if (state === undefined || !sameToken(state, this.#state)) {
      return page(400, "This is not the login that ipybox is waiting for.");
    }
    const ambiguous = ["code", "iss", "error"].some((name) =>
      url.searchParams.getAll(name).length > 1
    );
    if (ambiguous) return page(400, "The answer of the authorization server is ambiguous.");
    const [code, iss, error] = [one("code"), one("iss"), one("error")];
    this.#received.resolve({ code, iss, error });
    return page(
      200,
      "ipybox has received the answer and continues in the terminal. You can close this window.",
    );
  }
}

/** The look of the approval page, inline because the listener serves no other files. */
const STYLE = ":root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; " +
  "color: #20262b; background: #f6f6f3; } " +
  "@media (prefers-color-scheme: dark) { :root { color: #e3e6e7; background: #14181a; } } " +
  "body { max-width: 30rem; margin: 16vh auto 0; padding: 0 1.25rem; text-align: center; } " +
  "h1 { font-size: 1.25rem; font-weight: 500; }";
const STYLE_HASH = createHash("sha256").update(STYLE).digest("base64");

/** Shows nothing from the request, which anyone could have sent. */
function page(status: number, text: string): Response {
  const head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">' +
    `<title>ipybox login</title><style>${STYLE}</style>`;
  return new Response(
    `<!doctype html><html lang="en">${head}<h1>ipybox login</h1><p>${text}</p>\n`,
    {
      status,
      headers: {
        "cache-control": "no-store",
        "connection": "close",
        "content-security-policy": `default-src 'none'; style-src 'sha256-${STYLE_HASH}'`,
        "content-type": "text/html; charset=utf-8",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
      },
    },
  );
}
