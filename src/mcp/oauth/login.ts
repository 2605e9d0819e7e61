import { Deadline } from "../../async/deadline.ts";
import { anySignal } from "../../async/signals.ts";
import {
  exchangeAuthorization,
  type FetchLike,
  startAuthorization,
  validateAuthorizationResponseIssuer,
} from "../sdk.ts";
import { CallbackListener } from "./callback_listener.ts";
import { chooseClient, clientInformation, keyAuthentication } from "./client.ts";
import type { Authority } from "./discovery.ts";
import { OAuthHttpError } from "./http.ts";
import type { Login } from "./login_store.ts";
import type { OAuthParams } from "./params.ts";
import { codeOf } from "./refusal.ts";
import { checkTokens } from "./tokens.ts";
import { trustedUrl } from "./trusted_url.ts";

/** Where a person logs in. */
export interface LoginRequest {
  /** The registered server. */
  readonly serverName: string;
  /** The page: https, or on this machine where the server is. It holds no secret. */
  readonly url: URL;
  /** Aborts when nobody waits for it any more. */
  readonly signal: AbortSignal;
}

/** How a person logs in to remote servers. */
export interface LoginOptions {
  /** Shows a person the page. The login goes on when the browser comes back from it. */
  readonly show: (request: LoginRequest) => void | Promise<void>;
  /**
   * Whether to log in also where there is a login already.
   *
   * @default {false}
   */
  readonly anew?: boolean | undefined;
  /**
   * How long the person may take, in milliseconds.
   *
   * @default {300000}
   */
  readonly timeoutMs?: number | undefined;
}

/** What a login is made from. */
export interface LoginContext {
  /** The registered server's name. */
  readonly serverName: string;
  /** Its address. */
  readonly server: URL;
  /** What the user has set. */
  readonly params: OAuthParams;
  /** The scopes to ask for. */
  readonly scope?: string | undefined;
  /** The login so far. */
  readonly before?: Login | undefined;
  /** Who shows the page. */
  readonly login: LoginOptions;
  /** Fetches. */
  readonly fetchFn: FetchLike;
  /** Gives up. */
  readonly signal: AbortSignal;
}

const TIMEOUT_MS = 5 * 60_000;

/**
 * Lets a person log in with a browser: the authorization code grant with PKCE.
 *
 * All that belongs together stays together in this function, so that the answer of one authorization
 * server, or of another login, is never taken for that of another.
 */
export async function logIn(authority: Authority, context: LoginContext): Promise<Login> {
  const { serverName, server, params, scope, before, login, fetchFn } = context;
  const { issuer, metadata, resource } = authority;
  using deadline = new Deadline(login.timeoutMs ?? TIMEOUT_MS);
  const signal = anySignal(context.signal, deadline.signal);
  const state = randomText();
  await using listener = listen(state, params, before);
  const { redirectUri } = listener;
  const client = await chooseClient(authority, { params, before, redirectUri, scope }, fetchFn);
  const common = {
    clientInformation: clientInformation(client),
    ...(metadata === undefined ? {} : { metadata }),
    ...(resource === undefined ? {} : { resource }),
  };
  const { authorizationUrl, codeVerifier } = await startAuthorization(issuer, {
    ...common,
    redirectUrl: redirectUri,
    state,
    ...(scope === undefined ? {} : { scope }),
  });
  const url = trustedUrl("login page", authorizationUrl, server);
  await login.show({ serverName, url, signal });
  const { code, iss, error } = await listener.received(signal).catch((reason: unknown) => {
    if (context.signal.aborted || !deadline.passed) throw reason;
    throw new OAuthHttpError("the login timed out");
  });
  // Before anything of the answer is believed, an error included (RFC 9207).
  validateAuthorizationResponseIssuer({
    iss,
    expectedIssuer: metadata?.issuer,
    issParameterSupported: metadata?.authorization_response_iss_parameter_supported === true,
  });
  if (code === undefined) {
    throw new OAuthHttpError(`its authorization server refuses: ${codeOf(error ?? "")}`);
  }
  const addClientAuthentication = keyAuthentication(params);
  const tokens = await exchangeAuthorization(issuer, {
    ...common,
    authorizationCode: code,
    codeVerifier,
    redirectUri,
    fetchFn,
    ...(iss === undefined ? {} : { iss }),
    ...(addClientAuthentication === undefined ? {} : { addClientAuthentication }),
  });
  return { server: server.href, issuer, ...client, ...checkTokens(tokens), scope };
}

/** Listens at the port that the client was registered with, where it has one and the port is free. */
function listen(state: string, params: OAuthParams, before: Login | undefined): CallbackListener {
  const { callbackPort } = params;
  if (callbackPort !== undefined) {
    const listener = CallbackListener.open(state, callbackPort);
    if (listener !== undefined) return listener;
    throw new OAuthHttpError(`port ${callbackPort} of this machine is taken by another program`);
  }
  const port = Number(URL.parse(before?.redirectUri ?? "")?.port ?? 0);
  const listener = CallbackListener.open(state, port) ?? CallbackListener.open(state, 0);
  if (listener === undefined) throw new OAuthHttpError("no port of this machine is free");
  return listener;
}

function randomText(): string {
  return crypto.getRandomValues(new Uint8Array(32)).toBase64({ alphabet: "base64url" });
}
