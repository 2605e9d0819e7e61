/** The login to remote servers, against an authorization server that checks what it is sent. */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import {
  ConfigError,
  McpConnectionError,
  McpLoginRequiredError,
  ToolCallError,
} from "../../src/base/errors.ts";
import type { LoginRequest } from "../../src/mcp/oauth/login.ts";
import { forgetLogin } from "../../src/mcp/oauth/logout.ts";
import {
  connect,
  connectAndList,
  loginFiles,
  OAuthWorld,
  person,
  visit,
} from "../support/oauth.ts";
import { freePort, npmServer, startHttpServer } from "../support/mcp.ts";
import { runProgram } from "../support/program.ts";

const CONNECT_MS = 5000;

Deno.test("a login is made once, kept for its owner only, and used by the next connection", async () => {
  await using world = await OAuthWorld.create();
  const { servers, logins } = world;
  const shown: URL[] = [];

  assertEquals(await connectAndList(world, { login: person(shown) }), ["echo", "write"]);
  assertEquals(await connectAndList(world), ["echo", "write"]);

  assertEquals(shown.length, 1);
  assertEquals(servers.count("/register"), 1);
  const [file = "", ...others] = await loginFiles(logins);
  assertEquals(others, []);
  assertEquals((await Deno.stat(file)).mode! & 0o777, 0o600);
  assertEquals((await Deno.stat(logins)).mode! & 0o777, 0o700);
  const { server, issuer } = JSON.parse(await Deno.readTextFile(file));
  assertEquals({ server, issuer }, { server: servers.url, issuer: servers.issuer });
});

Deno.test("the page asks for a code with PKCE, a state, and the server as resource", async () => {
  await using world = await OAuthWorld.create();
  const { servers } = world;
  const shown: URL[] = [];

  await connectAndList(world, { login: person(shown) });

  const query = Object.fromEntries(shown[0]?.searchParams ?? []);
  assertEquals(query.code_challenge_method, "S256");
  assertEquals(query.resource, servers.url);
  assertEquals(query.response_type, "code");
  assertMatch(query.redirect_uri ?? "", /^http:\/\/127\.0\.0\.1:\d+\/callback$/);
  assert((query.state ?? "").length >= 43);
});

Deno.test("a server without metadata gives the tokens itself, for itself only", async () => {
  await using world = await OAuthWorld.create({ isOwnAuthority: true });
  const { servers } = world;
  const shown: URL[] = [];

  await connectAndList(world, { login: person(shown) });
  servers.expire();
  await connectAndList(world);

  assertEquals(shown[0]?.origin, servers.issuer);
  const requests = servers.asked.filter(({ path }) => /authorize|token/.test(path));
  assertEquals(requests.map(({ params }) => params.resource), Array(3).fill(servers.url));
});

Deno.test("a server that only wants a token for its list is logged in to then", async () => {
  await using world = await OAuthWorld.create({ openHandshake: true });

  const params = { protocol: "legacy" } as const;
  await using connection = await connect(world, { login: person() }, params);

  assertEquals((await connection.listTools()).length, 2);
});

Deno.test("a server over SSE is logged in to, and its token refreshed", async () => {
  const params = npmServer("server-everything", "sse");
  await using server = await startHttpServer(params, /listening|running on port/i, freePort());
  const upstream = new URL(`http://127.0.0.1:${server.port}/sse`);
  await using world = await OAuthWorld.create({ upstream });
  await assertRejects(() => connect(world), McpLoginRequiredError);

  await using connection = await connect(world, { login: person() });
  world.servers.expire();
  const { content } = await connection.callTool("echo", { message: "a" });

  assertEquals(content, [{ type: "text", text: "Echo: a" }]);
  assertEquals(world.servers.asked.filter(isRefresh).length, 1);
});

Deno.test("without a person, the error says how to log in", async () => {
  await using world = await OAuthWorld.create();

  const error = await assertRejects(() => connectAndList(world), McpLoginRequiredError);

  assertEquals(error.message, 'MCP server "remote" requires a login: run `ipybox login remote`');
  assertEquals(error.fix, "ipybox login remote");
});

Deno.test("an expired token is refreshed, also for requests at the same time, just once", async () => {
  await using world = await OAuthWorld.create();
  const { servers } = world;
  await using connection = await connect(world, { login: person() });
  servers.expire();

  const texts = await Promise.all(
    Array.from({ length: 8 }, (_, index) => connection.callTool("echo", { text: `${index}` })),
  );

  assertEquals(texts.length, 8);
  assertEquals(servers.asked.filter(isRefresh).length, 1);
});

Deno.test("processes that refresh at the same time take turns, so that rotation harms none", async () => {
  await using world = await OAuthWorld.create();
  const { servers } = world;
  await connectAndList(world, { login: person() });

  for (let round = 1; round <= 2; round++) {
    servers.expire();
    const ends = await Promise.all(Array.from({ length: 3 }, () => listInProcess(world)));
    assertEquals(ends, ["2", "2", "2"]);
    assertEquals(servers.asked.filter(isRefresh).length, round);
  }
});

Deno.test("a login that has ended is a typed error, which works again after the next login", async () => {
  await using world = await OAuthWorld.create();
  const { servers } = world;
  await using connection = await connect(world, { login: person() });
  await using other = await connect(world);
  servers.expire();
  servers.end();

  const error = await assertRejects(() => other.callTool("echo", { text: "a" }), ToolCallError);
  await connection.callTool("echo", { text: "a" });
  await using again = await connect(world);
  const { content } = await again.callTool("echo", { text: "b" });

  assertEquals(error.type, "login_required");
  assertEquals(error.message, 'MCP server "remote" requires a login: run `ipybox login remote`');
  assertEquals(content, [{ type: "text", text: "echo: b" }]);
});

Deno.test("where the server refuses what a refresh gave, a login helps", async () => {
  let refused = false;
  await using world = await OAuthWorld.create({
    tokens: (answer) => refused ? { ...answer, access_token: "refused" } : answer,
  });
  const { servers } = world;
  await connectAndList(world, { login: person() });
  refused = true;
  servers.expire();
  const error = await assertRejects(() => connectAndList(world), McpLoginRequiredError);

  servers.expire();
  const shown: URL[] = [];
  const login = {
    show: (request: LoginRequest) => {
      refused = false;
      return person(shown).show(request);
    },
  };
  assertEquals((await connectAndList(world, { login })).length, 2);
  assertEquals(shown.length, 1);
  assertMatch(error.message, /requires a login/);
});

Deno.test("where the server refuses what a login gave, that is the end", async () => {
  await using world = await OAuthWorld.create({
    tokens: (answer) => ({ ...answer, access_token: "refused" }),
  });
  const shown: URL[] = [];

  const error = await assertRejects(
    () => connectAndList(world, { login: person(shown) }),
    McpConnectionError,
  );

  assertMatch(error.message, /rejected the login that was just made/);
  assertEquals(shown.length, 1);
});

Deno.test("a call that needs further scopes asks for them and those before", async () => {
  const scopeOf = (_method: string, tool?: string) => tool === "write" ? "files:write" : "files";
  await using world = await OAuthWorld.create({ scopeOf });
  const shown: URL[] = [];
  const login = person(shown);
  await using connection = await connect(world, { login });

  await connection.callTool("write", { text: "a" });

  assertEquals(shown.map((url) => url.searchParams.get("scope")), ["files", "files files:write"]);
});

Deno.test("without a person, missing scopes are remembered for the next login", async () => {
  const scopeOf = (_method: string, tool?: string) => tool === "write" ? "files:write" : "files";
  await using world = await OAuthWorld.create({ scopeOf });
  const shown: URL[] = [];
  await connectAndList(world, { login: person() });
  await using connection = await connect(world);

  const error = await assertRejects(
    () => connection.callTool("write", { text: "a" }),
    ToolCallError,
  );
  await connectAndList(world, { login: { ...person(shown), anew: true } });
  await using again = await connect(world);
  await again.callTool("write", { text: "a" });

  assertEquals(error.type, "login_required");
  assertMatch(error.message, /requires more than the login grants: run `ipybox login remote`/);
  assertEquals(shown.map((url) => url.searchParams.get("scope")), ["files files:write"]);
});

Deno.test("scopes that are refused although they were asked for are not asked for for ever", async () => {
  const tokens = (answer: Record<string, unknown>) => answer;
  let asks = 0;
  const scopeOf = () => `scope-${asks++}`; // another one each time
  await using world = await OAuthWorld.create({ tokens, scopeOf });
  const shown: URL[] = [];

  await assertRejects(
    () => connectAndList(world, { login: person(shown) }),
    McpConnectionError,
  );

  assert(shown.length <= 3, `${shown.length} logins`);
});

Deno.test("a client that was registered by hand is used with its secret, at its issuer only", async () => {
  const secret = "s3cret/+=";
  await using world = await OAuthWorld.create({
    clients: { mine: secret },
    metadata: ({ registration_endpoint: _none, ...metadata }) => metadata,
  });
  const { servers } = world;
  const oauth = { clientId: "mine", clientSecret: secret, issuer: servers.issuer };

  assertEquals((await connectAndList(world, { login: person() }, oauth)).length, 2);
  const elsewhere = { ...oauth, clientId: "other", issuer: "https://auth.example.com" };
  const error = await assertRejects(
    () => connectAndList(world, { login: person() }, elsewhere),
    McpConnectionError,
  );

  assertMatch(error.message, /names 127\.0\.0\.1:\d+, which is not the configured/);
});

Deno.test("where no client can be registered, the error says what to do", async () => {
  await using world = await OAuthWorld.create({
    metadata: ({ registration_endpoint: _none, ...metadata }) => metadata,
  });

  const error = await assertRejects(
    () => connectAndList(world, { login: person() }),
    McpConnectionError,
  );

  assertMatch(error.message, /does not support dynamic client registration: .* --client-id/);
});

Deno.test("a client logs in as itself with a secret, and nothing is stored", async () => {
  await using world = await OAuthWorld.create({ clients: { robot: "robot-secret" } });
  const { servers, logins } = world;
  const oauth = {
    clientId: "robot",
    clientSecret: "robot-secret",
    issuer: servers.issuer,
    grant: "client_credentials",
  } as const;

  assertEquals((await connectAndList(world, {}, oauth)).length, 2);

  await assertRejects(() => Deno.stat(logins), Deno.errors.NotFound);
  assertEquals(servers.count("/authorize"), 0);
});

Deno.test("a client logs in as itself with a key", async () => {
  const algorithm = { name: "ECDSA", namedCurve: "P-256" };
  const { privateKey, publicKey } = await crypto.subtle.generateKey(algorithm, true, [
    "sign",
    "verify",
  ]);
  const key = new Uint8Array(await crypto.subtle.exportKey("pkcs8", privateKey)).toBase64();
  await using world = await OAuthWorld.create({ clients: { robot: publicKey } });
  const { servers } = world;
  const oauth = {
    clientId: "robot",
    privateKey: `-----BEGIN PRIVATE KEY-----\n${key}\n-----END PRIVATE KEY-----\n`,
    issuer: servers.issuer,
    grant: "client_credentials",
  } as const;

  assertEquals((await connectAndList(world, {}, oauth)).length, 2);
  const error = await assertRejects(
    () => connectAndList(world, {}, { ...oauth, privateKey: "no key at all" }),
    McpConnectionError,
  );

  assertMatch(error.message, /the configured private key cannot sign with ES256/);
  assert(!`${Deno.inspect(error)}`.includes("no key at all"));
});

Deno.test("logout revokes both tokens and deletes the login", async () => {
  await using world = await OAuthWorld.create();
  const { servers, logins } = world;
  await connectAndList(world, { login: person() });
  const { accessToken, refreshToken } = JSON.parse(
    await Deno.readTextFile((await loginFiles(logins))[0] ?? ""),
  );

  assertEquals(
    await forgetLogin("remote", { url: servers.url }, { loginsFolder: logins }),
    "revoked",
  );
  assertEquals(await forgetLogin("remote", { url: servers.url }, { loginsFolder: logins }), "none");

  assertEquals(servers.revoked, [refreshToken, accessToken]);
  assertEquals(await loginFiles(logins), []);
  await assertRejects(() => connectAndList(world), McpLoginRequiredError);
});

Deno.test("logout deletes the login also where it cannot be revoked", async () => {
  let failing = false;
  await using world = await OAuthWorld.create({
    intercept: (request) =>
      failing && request.url.endsWith("/revoke") ? new Response(null, { status: 500 }) : undefined,
  });
  const { servers, logins } = world;
  await connectAndList(world, { login: person() });
  failing = true;

  assertEquals(
    await forgetLogin("remote", { url: servers.url }, { loginsFolder: logins }),
    "refused",
  );

  assertEquals(await loginFiles(logins), []);
});

Deno.test("an Authorization header of the user's own is never replaced", async () => {
  await using world = await OAuthWorld.create();
  const { servers } = world;
  const params = { headers: { AUTHORIZATION: "Bearer mine" } };

  const error = await assertRejects(
    () => connect(world, { login: person() }, params),
    McpConnectionError,
  );

  assertMatch(error.message, /HTTP 401/);
  assertEquals(servers.asked, []);
});

Deno.test("headers for the server are not sent to its authorization server", async () => {
  await using world = await OAuthWorld.create();
  const { servers } = world;
  const params = { headers: { "X-Api-Key": "for the server alone" } };

  await using _connection = await connect(world, { login: person() }, params);

  assertEquals(servers.asked.filter(({ headers }) => headers.has("x-api-key")), []);
});

Deno.test("a file of logins that others can read is not used", async () => {
  await using world = await OAuthWorld.create();
  await connectAndList(world, { login: person() });
  const [file = ""] = await loginFiles(world.logins);
  await Deno.chmod(file, 0o644);

  const error = await assertRejects(() => connectAndList(world), ConfigError);

  assertMatch(error.message, /Others can read/);
});

Deno.test("logins are not kept in a workspace", async () => {
  await using world = await OAuthWorld.create();
  const workspace = world.state;

  const options = { workspace, login: person() };
  const error = await assertRejects(() => connectAndList(world, options), ConfigError);

  assertMatch(error.message, /must not be in the workspace/);
});

Deno.test("the time for a login is not that for connecting, and has its own limit", async () => {
  await using world = await OAuthWorld.create();
  const { servers } = world;
  const slow = {
    show: async ({ url }: LoginRequest) => {
      const limit = AbortSignal.timeout(CONNECT_MS + 100); // longer than there is for connecting
      await new Promise((resolve) => limit.addEventListener("abort", resolve));
      await visit(url);
    },
  };

  const tools = await connectAndList(world, { connectTimeoutMs: CONNECT_MS, login: slow });
  servers.expire();
  servers.end();
  const idle = { show: () => {}, timeoutMs: 50 };
  const error = await assertRejects(
    () => connectAndList(world, { login: idle }),
    McpConnectionError,
  );

  assertEquals(tools.length, 2);
  assertMatch(error.message, /the login timed out/);
});

Deno.test("a login can be given up", async () => {
  await using world = await OAuthWorld.create();
  const interrupt = new AbortController();
  const login = { show: () => interrupt.abort(new DOMException("Interrupted", "AbortError")) };

  const error = await assertRejects(
    () => connectAndList(world, { login, signal: interrupt.signal }),
    DOMException,
  );

  assertEquals(error.message, "Interrupted");
});

function isRefresh({ params }: { params: Record<string, string> }): boolean {
  return params.grant_type === "refresh_token";
}

/** Lists the tools from a process of its own. */
async function listInProcess({ servers: { url }, state }: OAuthWorld): Promise<string> {
  const module = new URL("../../src/mcp/connect.ts", import.meta.url);
  const code = `import { connectMcp } from ${JSON.stringify(module.href)};
    await using connection = await connectMcp("remote", { url: ${JSON.stringify(url)} });
    console.log((await connection.listTools()).length);`;
  const config = new URL("../../deno.json", import.meta.url).pathname;
  const args = ["eval", "--quiet", `--config=${config}`, code];
  const env = { NO_COLOR: "1", XDG_STATE_HOME: state };
  const { stdout, stderr } = await runProgram(Deno.execPath(), args, { env });
  return stdout.trim() || stderr;
}
