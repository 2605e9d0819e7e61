/**
 * An authorization server and an MCP server that wants its tokens. They keep to the standards, and
 * check that clients do, except where a test makes them attack.
 *
 * @module
 */
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { z } from "zod";
import { connectMcp, type SessionConnectOptions } from "../../src/mcp/connect.ts";
import type { McpConnection } from "../../src/mcp/connection.ts";
import type { LoginRequest } from "../../src/mcp/oauth/login.ts";
import type { OAuthParams } from "../../src/mcp/oauth/params.ts";
import type { HttpServerParams } from "../../src/mcp/params.ts";
import { TempFolder } from "./temp_folder.ts";

/** How the servers differ from what the standards want. */
export interface OAuthServersOptions {
  /** Changes the metadata of the authorization server. */
  readonly metadata?: (metadata: Record<string, unknown>) => unknown;
  /** Changes the metadata of the MCP server. */
  readonly resourceMetadata?: (metadata: Record<string, unknown>) => unknown;
  /** Changes where the browser is sent after a login. */
  readonly redirect?: (callback: URL) => URL | string;
  /** Changes an answer with tokens. */
  readonly tokens?: (answer: Record<string, unknown>) => unknown;
  /** Answers in place of the authorization server. */
  readonly intercept?: (request: Request) => Response | undefined;
  /** An MCP server that answers requests with a good token, in place of the own one. */
  readonly upstream?: URL;
  /** Where the MCP server sends all requests with a good token. */
  readonly moved?: () => string | undefined;
  /** The scope that a JSON-RPC request to the MCP server needs. */
  readonly scopeOf?: (method: string, tool: string | undefined) => string;
  /** Clients that were registered by hand: their secrets, or public keys, by id. */
  readonly clients?: Readonly<Record<string, string | CryptoKey>>;
  /** Whether the MCP server has no metadata, and is its own authorization server. */
  readonly isOwnAuthority?: boolean;
  /** Whether `initialize` needs no token, as at some servers. */
  readonly openHandshake?: boolean;
}

interface Grant {
  readonly clientId: string;
  readonly scope: string;
  readonly resource: string;
}

interface Code extends Grant {
  readonly challenge: string;
  readonly redirectUri: string;
}

/** The servers, on ports of this process. */
export class OAuthServers implements AsyncDisposable {
  /** What the authorization server was asked, in order: a path and its parameters. */
  readonly asked: { path: string; params: Record<string, string>; headers: Headers }[] = [];
  /** All that must never get anywhere else. */
  readonly secrets: string[] = [];
  /** How often the MCP server saw each JSON-RPC method with a good token. */
  readonly served: string[] = [];
  /** The authorization server that the MCP server names, where it is not its own. */
  authority: string | undefined;
  /** Tokens that were revoked by request. */
  readonly revoked: string[] = [];

  readonly #options: OAuthServersOptions;
  readonly #authority: Deno.HttpServer<Deno.NetAddr>;
  readonly #resource: Deno.HttpServer<Deno.NetAddr>;
  readonly #ending = new AbortController();
  readonly #clients = new Map<string, string | CryptoKey | undefined>();
  readonly #redirectUris = new Map<string, readonly string[]>();
  readonly #codes = new Map<string, Code>();
  readonly #access = new Map<string, Grant>();
  readonly #refresh = new Map<string, Grant>();
  readonly #spent = new Set<string>();

  private constructor(options: OAuthServersOptions) {
    this.#options = options;
    for (const [id, key] of Object.entries(options.clients ?? {})) {
      this.#clients.set(id, key);
      if (typeof key === "string") this.secrets.push(key);
    }
    const listen = { hostname: "127.0.0.1", port: 0, onListen() {} } as const;
    this.#authority = Deno.serve(listen, (request) => this.#answer(request));
    const mcp = createMcpHandler(() => this.#mcpServer());
    const { signal } = this.#ending;
    this.#resource = Deno.serve({ ...listen, signal }, async (request) => {
      const refusal = await this.#refuse(request.clone());
      if (refusal !== undefined) return refusal;
      const { upstream } = options;
      if (upstream === undefined) return await mcp.fetch(request);
      const { pathname, search } = new URL(request.url);
      return await fetch(new URL(pathname + search, upstream), request);
    });
  }

  /** Starts both. */
  static start(options: OAuthServersOptions = {}): OAuthServers {
    return new OAuthServers(options);
  }

  /** The MCP server's address. */
  get url(): string {
    const { pathname } = this.#options.upstream ?? new URL("http://127.0.0.1/mcp");
    return `http://127.0.0.1:${this.#resource.addr.port}${pathname}`;
  }

  /** The authorization server's name. */
  get issuer(): string {
    const { addr } = this.#options.isOwnAuthority ? this.#resource : this.#authority;
    return `http://127.0.0.1:${addr.port}`;
  }

  /** Makes the MCP server refuse all access tokens so far, as when they have expired. */
  expire(): void {
    this.#access.clear();
  }

  /** Makes the authorization server take no refresh token so far. */
  end(): void {
    this.#refresh.clear();
  }

  /** How often the authorization server was asked at a path. */
  count(path: string): number {
    return this.asked.filter((request) => request.path === path).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort(); // a stream of events has no end of its own
    await Promise.all([this.#authority.shutdown(), this.#resource.finished]);
  }

  #mcpServer(): McpServer {
    const server = new McpServer({ name: "protected", version: "1" });
    const inputSchema = z.object({ text: z.string() });
    for (const name of ["echo", "write"]) {
      server.registerTool(name, { inputSchema }, ({ text }) => ({
        content: [{ type: "text", text: `${name}: ${text}` }],
      }));
    }
    return server;
  }

  /** The MCP server's own check of the token. */
  async #refuse(request: Request): Promise<Response | undefined> {
    const { pathname, origin } = new URL(request.url);
    const metadata = `${origin}/.well-known/oauth-protected-resource${new URL(this.url).pathname}`;
    if (this.#options.isOwnAuthority && pathname !== "/mcp") return await this.#answer(request);
    if (pathname === new URL(metadata).pathname) {
      const { resourceMetadata = (same) => same } = this.#options;
      const document = {
        resource: this.url,
        authorization_servers: [this.authority ?? this.issuer],
      };
      return answer(resourceMetadata(document));
    }
    if (pathname !== "/mcp" && this.#options.upstream === undefined) {
      return new Response(null, { status: 404 });
    }
    const { method = "", params } = request.method === "POST" ? Object(await request.json()) : {};
    if (this.#options.openHandshake && /^initialize$|^notifications\//.test(method)) {
      return undefined;
    }
    const token = /^Bearer (\S+)$/.exec(request.headers.get("authorization") ?? "")?.[1];
    const grant = this.#access.get(token ?? "");
    const needed = this.#options.scopeOf?.(method, params?.name) ?? "";
    const at = `resource_metadata="${metadata}"`;
    if (grant === undefined || grant.resource !== this.url) {
      const scope = needed === "" ? "" : `, scope="${needed}"`;
      return new Response(null, {
        status: 401,
        headers: { "www-authenticate": `Bearer ${at}${scope}` },
      });
    }
    if (needed !== "" && !grant.scope.split(" ").includes(needed)) {
      const challenge = `Bearer error="insufficient_scope", scope="${needed}", ${at}`;
      return new Response(null, { status: 403, headers: { "www-authenticate": challenge } });
    }
    const target = this.#options.moved?.();
    if (target !== undefined) return Response.redirect(target, 307);
    this.served.push(method);
    return undefined;
  }

  async #answer(request: Request): Promise<Response> {
    const { pathname: path, searchParams } = new URL(request.url);
    const json = request.headers.get("content-type")?.startsWith("application/json") ?? false;
    const body = request.method === "POST" ? await request.clone().text() : "";
    const params: Record<string, string> = request.method === "GET"
      ? Object.fromEntries(searchParams)
      : json
      ? { body }
      : Object.fromEntries(new URLSearchParams(body));
    this.asked.push({ path, params, headers: request.headers });
    const intercepted = this.#options.intercept?.(request);
    if (intercepted !== undefined) return intercepted;
    switch (path) {
      case "/.well-known/oauth-authorization-server":
        return this.#metadata();
      case "/register":
        return this.#register(JSON.parse(body));
      case "/authorize":
        return this.#authorize(params);
      case "/token":
        return await this.#token(params, request.headers);
      case "/revoke":
        return this.#revoke(params);
      default:
        return new Response(null, { status: 404 });
    }
  }

  #metadata(): Response {
    const { metadata = (same) => same } = this.#options;
    const at = (path: string) => this.issuer + path;
    return answer(metadata({
      issuer: this.issuer,
      authorization_endpoint: at("/authorize"),
      token_endpoint: at("/token"),
      registration_endpoint: at("/register"),
      revocation_endpoint: at("/revoke"),
      response_types_supported: ["code"],
      code_challenge_methods_supported: ["S256"],
      authorization_response_iss_parameter_supported: true,
      token_endpoint_auth_methods_supported: ["none", "client_secret_basic", "private_key_jwt"],
    }));
  }

  #register({ redirect_uris }: { redirect_uris: string[] }): Response {
    const id = `client-${crypto.randomUUID()}`;
    this.#clients.set(id, undefined);
    this.#redirectUris.set(id, redirect_uris);
    return answer({
      client_id: id,
      redirect_uris,
      token_endpoint_auth_method: "none",
    }, 201);
  }

  #authorize(params: Record<string, string>): Response {
    const { client_id = "", redirect_uri = "", code_challenge = "", state = "" } = params;
    const { scope = "", resource = "" } = params;
    const registered = this.#redirectUris.get(client_id);
    const good = this.#clients.has(client_id) &&
      /^http:\/\/127\.0\.0\.1:\d+\//.test(redirect_uri) &&
      (registered?.includes(redirect_uri) ?? true) && params.response_type === "code" &&
      params.code_challenge_method === "S256" && code_challenge !== "" && state.length >= 22;
    if (!good) return new Response("bad request", { status: 400 });
    const code = this.#secret("code");
    this.#codes.set(code, {
      clientId: client_id,
      scope,
      resource,
      challenge: code_challenge,
      redirectUri: redirect_uri,
    });
    const callback = new URL(redirect_uri);
    callback.search = `${new URLSearchParams({ code, state, iss: this.issuer })}`;
    const location = this.#options.redirect?.(callback) ?? callback;
    return new Response(null, { status: 302, headers: { location: `${location}` } });
  }

  async #token(params: Record<string, string>, headers: Headers): Promise<Response> {
    const clientId = await this.#authenticate(params, headers);
    if (clientId === undefined) return answer({ error: "invalid_client" }, 401);
    const { grant_type, code = "", refresh_token = "", code_verifier = "" } = params;
    if (grant_type === "client_credentials") {
      const { scope = "", resource = "" } = params;
      return this.#give({ clientId, scope, resource }, false);
    }
    if (grant_type === "refresh_token") {
      const grant = this.#refresh.get(refresh_token);
      // A token that comes twice was stolen by someone: all end (RFC 9700).
      if (this.#spent.has(refresh_token)) this.#refresh.clear();
      const good = this.#refresh.delete(refresh_token) && grant?.clientId === clientId;
      this.#spent.add(refresh_token);
      return good ? this.#give(grant, true) : answer({ error: "invalid_grant" }, 400);
    }
    const grant = this.#codes.get(code);
    this.#codes.delete(code);
    const good = grant?.clientId === clientId && grant.redirectUri === params.redirect_uri &&
      grant.resource === params.resource && grant.challenge === await challengeOf(code_verifier);
    return good ? this.#give(grant, true) : answer({ error: "invalid_grant" }, 400);
  }

  #give({ clientId, scope, resource }: Grant, lasting: boolean): Response {
    const grant = { clientId, scope, resource };
    const access = this.#secret("access");
    this.#access.set(access, grant);
    const refresh = lasting ? { refresh_token: this.#secret("refresh") } : {};
    if (refresh.refresh_token !== undefined) this.#refresh.set(refresh.refresh_token, grant);
    const { tokens = (same) => same } = this.#options;
    return answer(
      tokens({ access_token: access, token_type: "Bearer", expires_in: 60, ...refresh }),
    );
  }

  #revoke({ token = "" }: Record<string, string>): Response {
    this.revoked.push(token);
    this.#access.delete(token);
    this.#refresh.delete(token);
    return new Response(null);
  }

  async #authenticate(
    params: Record<string, string>,
    headers: Headers,
  ): Promise<string | undefined> {
    const basic = /^Basic (.+)$/.exec(headers.get("authorization") ?? "")?.[1];
    const [basicId, secret] = basic === undefined ? [] : atob(basic).split(":");
    const assertion = params.client_assertion;
    const id = basicId ?? subjectOf(assertion) ?? params.client_id ?? "";
    const known = this.#clients.get(id);
    if (!this.#clients.has(id)) return undefined;
    if (known === undefined) return id;
    if (typeof known === "string") return known === secret ? id : undefined;
    return await isSigned(assertion ?? "", known, this.issuer) ? id : undefined;
  }

  #secret(kind: string): string {
    const secret = `${kind}-${crypto.randomUUID()}`;
    this.secrets.push(secret);
    return secret;
  }
}

/** The servers, and a place for logins that is the test's own. */
export class OAuthWorld implements AsyncDisposable {
  private constructor(
    /** The servers. */
    readonly servers: OAuthServers,
    /** What processes of a test have as `XDG_STATE_HOME`; the tests' own environment is shared. */
    readonly state: string,
    readonly parts: AsyncDisposableStack,
  ) {}

  /** Makes both. */
  static async create(options: OAuthServersOptions = {}): Promise<OAuthWorld> {
    await using parts = new AsyncDisposableStack();
    const servers = parts.use(OAuthServers.start(options));
    const { path } = parts.use(await TempFolder.create());
    return new OAuthWorld(servers, path, parts.move());
  }

  /** The folder of the logins. */
  get logins(): string {
    return `${this.state}/ipybox/logins`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.parts.disposeAsync();
  }
}

/** A person with a browser, who notes what is shown. */
export function person(shown: URL[] = []): { show: (request: LoginRequest) => Promise<void> } {
  return {
    show: async ({ url }) => {
      shown.push(url);
      await visit(url);
    },
  };
}

/** Connects to the MCP server. */
export async function connect(
  { servers, logins }: OAuthWorld,
  options: SessionConnectOptions = {},
  params: Partial<HttpServerParams> = {},
): Promise<McpConnection> {
  const loginsFolder = logins;
  return await connectMcp("remote", { url: servers.url, ...params }, { loginsFolder, ...options });
}

/** Connects to the MCP server and lists its tools. */
export async function connectAndList(
  world: OAuthWorld,
  options: SessionConnectOptions = {},
  oauth?: OAuthParams,
): Promise<string[]> {
  await using connection = await connect(world, options, { oauth });
  return (await connection.listTools()).map(({ name }) => name);
}

/** The files of the logins that are kept. */
export async function loginFiles(folder: string): Promise<string[]> {
  const names = await Array.fromAsync(Deno.readDir(folder), ({ name }) => name);
  return names.filter((name) => name.endsWith(".json")).map((name) => `${folder}/${name}`);
}

/** What a browser does with the page of a login: it goes where it is sent. */
export async function visit(url: URL): Promise<number> {
  const response = await fetch(url);
  await response.body?.cancel();
  return response.status;
}

function answer(body: unknown, status = 200): Response {
  if (body instanceof Response) return body;
  return Response.json(body, { status });
}

async function challengeOf(verifier: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  return new Uint8Array(digest).toBase64({ alphabet: "base64url", omitPadding: true });
}

function fromBase64Url(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.fromBase64(text, { alphabet: "base64url" });
}

function claimsOf(assertion: string): Record<string, unknown> {
  return JSON.parse(new TextDecoder().decode(fromBase64Url(assertion.split(".")[1] ?? "")));
}

function subjectOf(assertion: string | undefined): string | undefined {
  return assertion === undefined ? undefined : String(claimsOf(assertion).sub);
}

async function isSigned(assertion: string, key: CryptoKey, audience: string): Promise<boolean> {
  const [header = "", payload = "", signature = ""] = assertion.split(".");
  const { aud, exp } = claimsOf(assertion);
  const algorithm = { name: "ECDSA", hash: "SHA-256" };
  const text = new TextEncoder().encode(`${header}.${payload}`);
  return aud === audience && Number(exp) * 1000 > Date.now() &&
    await crypto.subtle.verify(algorithm, key, fromBase64Url(signature), text);
}
