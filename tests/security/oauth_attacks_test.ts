/** Attacks on the login to remote servers: by the server, by its authorization server, by a page. */
import { assert, assertEquals, assertMatch, assertRejects, unreachable } from "@std/assert";
import { McpConnectionError } from "../../src/base/errors.ts";
import { logIn, type LoginRequest } from "../../src/mcp/oauth/login.ts";
import { forgetLogin } from "../../src/mcp/oauth/logout.ts";
import {
  connectAndList,
  type OAuthServers,
  type OAuthServersOptions,
  OAuthWorld,
  person,
  visit,
} from "../support/oauth.ts";

/** Tries to log in to servers that misbehave, and tells what came of it. */
async function attack(
  options: OAuthServersOptions,
  show?: (shown: URL) => Promise<void>,
) {
  await using world = await OAuthWorld.create(options);
  const { servers } = world;
  const shown: URL[] = [];
  const login = {
    timeoutMs: 20_000,
    show: async (request: LoginRequest) => {
      shown.push(request.url);
      await (show ?? visit)(request.url);
    },
  };
  const error = await assertRejects(() => connectAndList(world, { login }), McpConnectionError);
  const said = Deno.inspect(error, { depth: 10, strAbbreviateSize: Infinity });
  for (const secret of servers.secrets) assert(!said.includes(secret), said);
  return { message: error.message, shown, tokenRequests: servers.count("/token") };
}

Deno.test("an answer without the login's state does not count, and does not end the login", async () => {
  await using world = await OAuthWorld.create();
  const statuses: number[] = [];
  const show = async ({ url }: LoginRequest) => {
    const callback = url.searchParams.get("redirect_uri") ?? "";
    for (const query of ["code=stolen", "code=stolen&state=", "code=stolen&state=guess"]) {
      statuses.push(await visit(new URL(`${callback}?${query}`)));
    }
    await visit(url);
  };

  assertEquals((await connectAndList(world, { login: { show } })).length, 2);

  assertEquals(statuses, [400, 400, 400]);
  assertEquals(world.servers.count("/token"), 1);
});

Deno.test("the callback takes no repeated parameters, no other host, no other method or path", async () => {
  await using world = await OAuthWorld.create();
  const statuses: number[] = [];
  const show = async ({ url }: LoginRequest) => {
    const callback = new URL(url.searchParams.get("redirect_uri") ?? "");
    const state = url.searchParams.get("state") ?? "";
    const ask = async (path: string, init?: RequestInit) => {
      const response = await fetch(new URL(path, callback), init);
      const text = await response.text();
      assert(!text.includes("<script>"), text);
      statuses.push(response.status);
    };
    await ask(`/callback?state=${state}&code=a&code=b`);
    await ask(`/callback?state=${state}&state=${state}&code=a`);
    await ask(`/callback?state=${state}&code=a`, { method: "POST" });
    await ask(`/other?state=${state}&code=a`);
    await ask(`/callback?state=<script>&code=<script>`);
    statuses.push(await visitAs("evil.example", callback, `/callback?state=${state}&code=a`));
    await visit(url);
  };

  assertEquals((await connectAndList(world, { login: { show } })).length, 2);

  assertEquals(statuses, [400, 400, 405, 404, 400, 421]);
});

Deno.test("an answer in the name of another authorization server is refused (RFC 9207)", async () => {
  for (const iss of ["https://evil.example", "", undefined]) {
    const { message, tokenRequests } = await attack({
      redirect: (callback) => {
        if (iss === undefined) callback.searchParams.delete("iss");
        else callback.searchParams.set("iss", iss);
        return callback;
      },
    });
    assertMatch(message, /came from a different authorization server/);
    assertEquals(tokenRequests, 0);
  }
});

Deno.test("an error is only believed from the authorization server that was asked", async () => {
  const redirect = (iss?: string) => (callback: URL) => {
    callback.searchParams.delete("code");
    callback.searchParams.set("error", "access_denied");
    callback.searchParams.set("error_description", "pay at evil.example");
    if (iss !== undefined) callback.searchParams.set("iss", iss);
    return callback;
  };

  const denied = await attack({ redirect: redirect() });
  const forged = await attack({ redirect: redirect("https://evil.example") });

  assertMatch(denied.message, /refused: access_denied$/);
  assertMatch(forged.message, /came from a different authorization server/);
});

Deno.test("a code of another login is worth nothing", async () => {
  const codes: string[] = [];
  const { message, tokenRequests } = await attack({
    redirect: (callback) => {
      codes.push(callback.searchParams.get("code") ?? "");
      if (codes.length === 2) callback.searchParams.set("code", codes[0] ?? "");
      return codes.length === 1 ? "about:blank" : callback;
    },
  }, async (url) => {
    // Somebody else's login, with a verifier of their own, whose code is given to this one.
    const other = new URL(url);
    other.searchParams.set("code_challenge", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    await fetch(other, { redirect: "manual" }).then(({ body }) => body?.cancel());
    await visit(url);
  });

  assertMatch(message, /refused: invalid_grant$/);
  assertEquals(tokenRequests, 1);
});

Deno.test("metadata that is another's is refused before anything is shown", async () => {
  const cases: readonly (readonly [OAuthServersOptions, RegExp])[] = [
    [
      { metadata: (metadata) => ({ ...metadata, issuer: "https://evil.example" }) },
      /names a different issuer/,
    ],
    [
      { resourceMetadata: (metadata) => ({ ...metadata, resource: "https://other.example/mcp" }) },
      /metadata belongs to another server/,
    ],
    [
      {
        resourceMetadata: ({ resource, ...metadata }) => ({
          ...metadata,
          resource: `${resource}/other`,
        }),
      },
      /metadata belongs to another server/,
    ],
    [{ metadata: () => ({ issuer: 1 }) }, /is invalid/],
    [
      { metadata: ({ code_challenge_methods_supported: _none, ...metadata }) => metadata },
      /does not advertise PKCE/,
    ],
  ];
  for (const [options, expected] of cases) {
    const { message, shown, tokenRequests } = await attack(options);
    assertMatch(message, expected);
    assertEquals({ shown, tokenRequests }, { shown: [], tokenRequests: 0 });
  }
});

Deno.test("metadata without an end is not read to its end", async () => {
  let sent = 0;
  const endless = () =>
    new Response(
      new ReadableStream({
        pull(controller) {
          controller.enqueue(new Uint8Array(65_536).fill(32));
          sent += 65_536;
        },
      }),
      { headers: { "content-type": "application/json" } },
    );

  const authority = await attack({ metadata: endless });
  const resource = await attack({ resourceMetadata: endless });

  assertMatch(authority.message, /exceeds 262144 bytes/);
  assertMatch(resource.message, /exceeds 262144 bytes/);
  assert(sent < 32 * 2 ** 20, `${sent} bytes were taken`);
});

Deno.test("pages that are no web pages, or not for this server, are never shown", async () => {
  const pages = [
    "javascript:alert(1)",
    "data:text/html,hello",
    "file:///etc/passwd",
    "http://evil.example/login",
    "https://user:password@evil.example/login",
    "ftp://evil.example/",
    "not an address",
  ];
  for (const authorization_endpoint of pages) {
    const { shown } = await attack({
      metadata: (metadata) => ({ ...metadata, authorization_endpoint }),
    });
    assertEquals(shown, [], authorization_endpoint);
  }
});

Deno.test("a login at the page of another service does not go to the server that names that", async () => {
  await using honest = await OAuthWorld.create();
  for (const page of [`${honest.servers.issuer}/authorize`, "https://honest.example/authorize"]) {
    const { shown, message, tokenRequests } = await attack({
      metadata: (metadata) => ({ ...metadata, authorization_endpoint: page }),
    });
    assertEquals([shown, tokenRequests], [[], 0]);
    assert(message.includes(`its login page belongs to ${new URL(page).host}, but`), message);
    assertMatch(message, /would go to 127\.0\.0\.1:\d+: if you trust that host .*--issuer/);
  }
});

Deno.test("a server without metadata gets no login to the service whose endpoints it gives as its own", async () => {
  await using honest = await OAuthWorld.create();
  const { issuer } = honest.servers;
  const endpoints = {
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    registration_endpoint: `${issuer}/register`,
  };
  const all = Object.entries(endpoints);
  for (const some of [all, ...all.map((one) => [one])]) {
    const { shown, message } = await attack({
      isOwnAuthority: true,
      metadata: (metadata) => ({ ...metadata, ...Object.fromEntries(some) }),
    });
    assertEquals([shown, honest.servers.asked], [[], []]);
    const host = new URL(issuer).host;
    assert(message.includes(`names no authorization server, but endpoints of ${host}`), message);
    assertMatch(message, /specify --issuer http:\/\/127\.0\.0\.1:\d+$/);
  }
});

Deno.test("the page of another customer of the same host is not shown", async () => {
  const issuer = "https://notes.hosting.example";
  const metadata = {
    issuer,
    authorization_endpoint: "https://bank.hosting.example/authorize",
    token_endpoint: `${issuer}/token`,
    response_types_supported: ["code"],
  };
  const refused = logIn({ issuer, metadata, resource: `${issuer}/mcp` }, {
    serverName: "notes",
    server: new URL(issuer),
    params: { clientId: "client" },
    login: { show: () => unreachable() },
    fetchFn: () => unreachable(),
    signal: new AbortController().signal,
  });
  await assertRejects(() => refused, TypeError, "its login page belongs to bank.hosting.example");
});

Deno.test("servers are not led to what only this machine can reach", async () => {
  const issuers = ["http://169.254.169.254/", "https://169.254.169.254/", "http://10.0.0.1/"];
  for (const issuer of issuers) {
    const { message } = await attack({
      resourceMetadata: (metadata) => ({ ...metadata, authorization_servers: [issuer] }),
    });
    assertMatch(message, /is not https|is on this machine or its local network/);
  }
});

Deno.test("redirects of metadata and tokens do not lead to other servers", async () => {
  const asked: string[] = [];
  await using spy = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    (request) => {
      asked.push(request.url);
      return new Response("{}");
    },
  );
  const target = `http://127.0.0.1:${spy.addr.port}/`;
  for (const path of ["/.well-known/oauth-authorization-server", "/register", "/token"]) {
    for (const status of [302, 307]) {
      await attack({
        intercept: (request) =>
          new URL(request.url).pathname === path ? Response.redirect(target, status) : undefined,
      });
    }
  }

  let ended = false;
  const intercept = (request: Request) =>
    ended && request.url.endsWith("/revoke") ? Response.redirect(target, 307) : undefined;
  await using world = await OAuthWorld.create({ intercept });
  await connectAndList(world, { login: person() });
  ended = true;

  assertEquals(
    await forgetLogin("remote", { url: world.servers.url }, { loginsFolder: world.logins }),
    "refused",
  );
  assertEquals(asked, []);
});

Deno.test("the token does not follow the server's redirects", async () => {
  const seen: (string | null)[] = [];
  await using spy = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    (request) => {
      seen.push(request.headers.get("authorization"));
      return new Response(null, { status: 404 });
    },
  );
  let target: string | undefined;
  await using world = await OAuthWorld.create({ moved: () => target });
  await connectAndList(world, { login: person() });

  for (const host of ["127.0.0.1", "localhost"]) {
    target = `http://${host}:${spy.addr.port}/mcp`;
    await assertRejects(() => connectAndList(world), McpConnectionError);
  }

  assertEquals(seen, []);
});

Deno.test("answers with tokens that are none are refused without showing them", async () => {
  const answers: readonly ((tokens: Record<string, unknown>) => unknown)[] = [
    (tokens) => ({ ...tokens, access_token: `${tokens.access_token}\r\nX-Evil: 1` }),
    (tokens) => ({ ...tokens, access_token: "" }),
    (tokens) => ({ ...tokens, token_type: "DPoP" }),
    ({ access_token: _none, ...tokens }) => tokens,
    (tokens) => new Response(`access_token=${tokens.access_token}&token_type=bearer`),
    (tokens) => new Response(`{"access_token":"${tokens.access_token}"`),
    (tokens) => new Response(`leak ${tokens.access_token}`, { status: 500 }),
    (tokens) => Response.json({ error: `${tokens.access_token}` }, { status: 400 }),
    (tokens) =>
      Response.json({ error: "server_error", error_description: tokens.refresh_token }, {
        status: 400,
      }),
  ];
  for (const tokens of answers) {
    const { message, tokenRequests } = await attack({ tokens });
    assertMatch(
      message,
      /^MCP server "remote" cannot be logged in to: .*its authorization server /,
    );
    assertEquals(tokenRequests, 1);
  }
});

Deno.test("scopes that are none are not asked for", async () => {
  await using world = await OAuthWorld.create({
    resourceMetadata: (metadata) => ({
      ...metadata,
      scopes_supported: ["a", 'b" \u001b[31m', "c"],
    }),
  });
  const shown: URL[] = [];

  await connectAndList(world, { login: person(shown) });

  assertEquals(shown[0]?.searchParams.has("scope"), false);
});

Deno.test("what one authorization server gave is not shown to the next", async () => {
  await using world = await OAuthWorld.create();
  const { servers } = world;
  await connectAndList(world, { login: person() });
  await using other = otherAuthority(servers);

  servers.expire();
  await assertRejects(
    () => connectAndList(world, { login: { ...person(), timeoutMs: 5000 } }),
    McpConnectionError,
  );

  assert(other.asked.length > 0);
  for (const secret of servers.secrets) assert(!other.asked.join("\n").includes(secret));
  assertEquals(servers.count("/token"), 1);
});

/** Another authorization server, which the MCP server names from now on. It notes what it is sent. */
function otherAuthority(servers: OAuthServers) {
  const asked: string[] = [];
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    async (request) => {
      const body = await request.text();
      asked.push(`${request.url} ${body} ${JSON.stringify([...request.headers])}`);
      return new Response(null, { status: 404 });
    },
  );
  servers.authority = `http://127.0.0.1:${server.addr.port}`;
  return { asked, [Symbol.asyncDispose]: () => server.shutdown() };
}

/** Sends a request by hand, in the name of a page of another host. */
async function visitAs(host: string, { hostname, port }: URL, path: string): Promise<number> {
  using connection = await Deno.connect({ hostname, port: Number(port) });
  const request = `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`;
  await connection.write(new TextEncoder().encode(request));
  const answer = new Uint8Array(1024);
  const size = await connection.read(answer) ?? 0;
  const line = new TextDecoder().decode(answer.subarray(0, size));
  return Number(/^HTTP\/1.1 (\d+)/.exec(line)?.[1]);
}
