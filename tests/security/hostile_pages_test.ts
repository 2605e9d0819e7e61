/**
 * Attacks on the approval page: by other pages, by whoever finds a link, by other programs of the
 * machine. While each goes on, a call of a gated tool waits; the tool must never run.
 */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import type { ToolServer } from "../../src/calls/tool_server.ts";
import { askingServer, openPage, untilReady } from "../support/approval_page.ts";
import { browserTest } from "../support/browser.ts";
import { attackFrom } from "../support/in_page.js";
import { stepsOf } from "../support/steps.ts";
import { until } from "../support/wait.ts";
import { TempFolder } from "../support/temp_folder.ts";

/** A tool server with a page's session, and a call that waits for a decision. */
class PageSiege implements AsyncDisposable {
  readonly #parts: AsyncDisposableStack;

  private constructor(
    parts: AsyncDisposableStack,
    readonly server: ToolServer,
    readonly journal: string,
    /** How the waiting call ends. */
    readonly call: Promise<string>,
    /** The waiting request. */
    readonly id: string,
    /** The page's address. */
    readonly page: URL,
    /** The page's cookie, which no attacker has. */
    readonly cookie: string,
  ) {
    this.#parts = parts;
  }

  static async begin(): Promise<PageSiege> {
    await using parts = new AsyncDisposableStack();
    const folder = parts.use(await TempFolder.create());
    const journal = `${folder.path}/journal`;
    const server = parts.use(await askingServer({ journal }));
    const ids: string[] = [];
    parts.use(server.runner.channel.watch(({ id }) => void ids.push(id)));
    const { page, cookie } = await enter(server.approvalPage());
    const call = server.runner.run("raw", "count").then(() => "ran", (error) => `${error.message}`);
    await until(() => ids.length === 1);
    return new PageSiege(parts.move(), server, journal, call, ids[0] ?? "", page, cookie);
  }

  /** The address of a request below the page. */
  at(path: string): URL {
    return new URL(path, this.page);
  }

  /** Where the waiting request is decided. */
  get target(): URL {
    return this.at(`requests/${this.id}`);
  }

  /** What the page itself sends. */
  get headers(): Record<string, string> {
    return {
      cookie: this.cookie,
      origin: this.page.origin,
      "content-type": "application/json",
      "x-ipybox-page": "1",
    };
  }

  /** Sends a decision, as the page does but for what is changed. Gives the status. */
  async post(headers: Record<string, string | undefined> = {}, body = ALLOW): Promise<number> {
    const all = Object.entries({ ...this.headers, ...headers }).filter(([, value]) =>
      value !== undefined
    ).map(([name, value]): [string, string] => [name, value ?? ""]);
    return await status(this.target, { method: "POST", headers: all, body });
  }

  /** Holds that nothing was decided. */
  async assertWaits(): Promise<void> {
    assertEquals(this.server.runner.channel.pending, 1);
    assertEquals(await this.calls(), 0);
  }

  /** Holds that nothing was decided, and that a person still can. */
  async assertHeld(): Promise<void> {
    await this.assertWaits();
    assertEquals(await this.post({}, '{"approved":false,"reason":"held"}'), 200);
    assertEquals(await this.call, "raw.count was refused: held");
    assertEquals(await this.calls(), 0);
  }

  /** How often the gated tool was called. */
  async calls(): Promise<number> {
    const text = await Deno.readTextFile(this.journal).catch(() => ""); // it was never started
    return text.split("\n").filter((line) => line === "tools/call").length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts.disposeAsync();
  }
}

const ALLOW = "true";

/** Opens a link as a browser does, and gives what it leads to. */
async function enter(link: URL): Promise<{ page: URL; cookie: string }> {
  const response = await fetch(link, { redirect: "manual" });
  await response.body?.cancel();
  assertEquals(response.status, 303);
  const page = new URL(response.headers.get("location") ?? "", link);
  return { page, cookie: response.headers.get("set-cookie")?.split(";")[0] ?? "" };
}

async function status(url: URL, init: RequestInit = {}): Promise<number> {
  const response = await fetch(url, { redirect: "manual", ...init });
  await response.body?.cancel();
  return response.status;
}

/** Sends a request whose headers `fetch()` would not let through. Gives the status. */
async function raw(
  { hostname, port }: URL,
  head: string,
  headers: Record<string, string>,
): Promise<number> {
  using connection = await Deno.connect({ hostname, port: Number(port) });
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  await connection.write(new TextEncoder().encode(`${head} HTTP/1.1\r\n${lines.join("")}\r\n`));
  const buffer = new Uint8Array(1024);
  const size = await connection.read(buffer) ?? 0;
  return Number(new TextDecoder().decode(buffer.subarray(0, size)).split(" ")[1]);
}

function upgrade(url: URL, headers: Record<string, string>): Promise<number> {
  return raw(url, `GET ${url.pathname}${url.search}`, {
    Host: url.host,
    Upgrade: "websocket",
    Connection: "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
    ...headers,
  });
}

Deno.test("what the attacks vary decides as it is, once", async () => {
  await using siege = await PageSiege.begin();
  assertEquals(await siege.post(), 200);
  assertEquals(await siege.call, "ran");
  assertEquals(await siege.calls(), 1);
  assertEquals(await siege.post(), 200, "again, which is said to be too late");
  assertEquals(await siege.calls(), 1);
  const { cookie, page } = siege;
  assertEquals(await upgrade(siege.at("live"), { Cookie: cookie, Origin: page.origin }), 101);
});

Deno.test("attacks on the page of a request that waits", async (t) => {
  const step = stepsOf(t);
  await using siege = await PageSiege.begin();

  await step(
    "A1, A2: requests are neither decided nor shown without the cookie and the page's origin",
    async () => {
      const { cookie, page, server } = siege;
      const live = siege.at("live");
      const token = cookie.split("=")[1] ?? "";
      for (
        const wrong of [
          undefined,
          "",
          "ipybox_page=",
          `ipybox_page=${token.slice(1)}`,
          `ipybox_page=${token}${token}`,
          `ipybox_page2=${token}`,
          `other=${token}`,
          `ipybox_page=${server.applicationDoor.token}`,
          `ipybox_page=${server.kernelDoor.token}`,
        ]
      ) {
        assertEquals(await siege.post({ cookie: wrong }), 401, wrong);
        const given: Record<string, string> = wrong === undefined ? {} : { Cookie: wrong };
        assertEquals(await upgrade(live, { ...given, Origin: page.origin }), 401, wrong);
      }
      const bearer = { authorization: `Bearer ${server.applicationDoor.token}` };
      assertEquals(await siege.post({ ...bearer, cookie: undefined }), 401);
      assertEquals(await upgrade(siege.at(`live?token=${token}`), { Origin: page.origin }), 401);
      for (
        const origin of [
          undefined,
          "null",
          "http://evil.example",
          "http://127.0.0.1:9999",
          `http://localhost:${page.port}`,
          `https://127.0.0.1:${page.port}`,
          `${page.origin}.evil.example`,
          "file://",
        ]
      ) {
        assertEquals(await siege.post({ origin }), 403, origin);
        const given: Record<string, string> = origin === undefined ? {} : { Origin: origin };
        assertEquals(await upgrade(live, { Cookie: cookie, ...given }), 403, origin);
        if (origin === undefined) continue;
        assertEquals(
          await status(page, { headers: { origin } }),
          403,
          "nor is the page itself shown",
        );
      }
      for (const site of ["cross-site", "same-site", "none"]) {
        assertEquals(await siege.post({ "sec-fetch-site": site }), 403, site);
        const headers = { "sec-fetch-site": site };
        assertEquals(await status(siege.at("main.js"), { headers }), 403, site);
      }
      await siege.assertWaits();
    },
  );

  await step("A3: a rebound name opens no page", async () => {
    const { cookie, page, target } = siege;
    for (
      const Host of [
        "evil.example",
        `evil.example:${page.port}`,
        `localhost:${page.port}`,
        "127.0.0.1",
        `127.0.0.1:${Number(page.port) + 1}`,
        `${page.host}.evil.example`,
        "",
      ]
    ) {
      const headers = { Host, Cookie: cookie, Origin: `http://${Host}` };
      assertEquals(await raw(page, `GET ${page.pathname}`, headers), 421, Host);
      assertEquals(await raw(page, "GET /page/open?code=x", headers), 421, Host);
      assertEquals(await upgrade(siege.at("live"), headers), 421, Host);
      const body = {
        "Content-Type": "application/json",
        "X-Ipybox-Page": "1",
        "Content-Length": "0",
      };
      assertEquals(await raw(page, `POST ${target.pathname}`, { ...headers, ...body }), 421, Host);
    }
    await siege.assertWaits();
  });

  await step("A4: no form and no simple request decides", async () => {
    for (
      const type of [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        undefined,
      ]
    ) {
      assertEquals(await siege.post({ "content-type": type }), 415, type);
    }
    assertEquals(await siege.post({ "x-ipybox-page": undefined }), 403);
    assertEquals(await siege.post({ "x-ipybox-page": "0" }), 403);
    for (const method of ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"]) {
      assertEquals(await status(siege.target, { method, headers: siege.headers }), 405, method);
    }
    await siege.assertWaits();
  });

  await step("A5, A7: the kernel's door and its token have no page", async () => {
    const { kernelDoor, applicationDoor } = siege.server;
    const link = siege.server.approvalPage();
    const headers = { authorization: `Bearer ${kernelDoor.token}` };
    for (const path of ["/page/open", siege.page.pathname, siege.target.pathname]) {
      const url = new URL(path + link.search, `http://127.0.0.1:${kernelDoor.port}`);
      await assertRejects(() => fetch(url, { headers }), TypeError); // it speaks no HTTP
    }
    for (const path of ["/page", "/page/..%2fservers", "/page/../servers"]) {
      const answer = await status(new URL(path, applicationDoor.url), { headers });
      assert(answer === 404 || answer === 401, `${path}: ${answer}`);
    }
    const { token } = applicationDoor;
    const door = { headers: { authorization: `Bearer ${token}` } };
    assertEquals(await status(new URL("/page/open", applicationDoor.url), door), 403);
    await siege.assertWaits();
  });

  await step("a link is good for one visit by a person, and for some minutes", async () => {
    const { server } = siege;
    const link = server.approvalPage();
    for (const purpose of ["prefetch", "prefetch;prerender"]) {
      assertEquals(await status(link, { headers: { "sec-purpose": purpose } }), 403);
    }
    for (const target of ["iframe", "image", "script", "empty", "object"]) {
      assertEquals(await status(link, { headers: { "sec-fetch-dest": target } }), 403);
    }
    for (const method of ["HEAD", "POST", "OPTIONS"]) {
      assertEquals(await status(link, { method }), 405, method);
    }
    const both = await Promise.all([status(link), status(link)]);
    assertEquals(both.sort(), [303, 403]);
    const { code } = Object.fromEntries(server.approvalPage().searchParams);
    for (
      const wrong of [
        "/page/open",
        "/page/open?code=",
        `/page/open?code=${code?.slice(1)}`,
        `/page/open?code=${code?.toUpperCase()}A`,
        `/page/open?CODE=${code}`,
        `/page/open?code=x&code=${code}`,
      ]
    ) assertEquals(await status(new URL(wrong, siege.page)), 403, wrong);
    await using hasty = await askingServer({ linkMs: 1 });
    const void_ = hasty.approvalPage();
    await until(() => hasty.page.state === "away");
    assertEquals(await status(void_), 403);
    await siege.assertWaits();
  });

  await step("A24: a session is guessed by nobody, and good for its own page alone", async () => {
    const other = await enter(siege.server.approvalPage());
    const mixed = new URL(
      siege.target.pathname.replace(siege.page.pathname, other.page.pathname),
      other.page,
    );
    assertEquals(await status(mixed, { method: "POST", headers: siege.headers, body: ALLOW }), 401);
    await using stranger = await askingServer();
    const theirs = await enter(stranger.approvalPage());
    assertEquals(await siege.post({ cookie: theirs.cookie }), 401);
    const guessed = new URL(`/page/${"0".repeat(32)}/`, siege.page);
    assertEquals(await status(guessed), 404);
    assertEquals(await upgrade(new URL("live", guessed), { Origin: siege.page.origin }), 404);
    assertMatch(siege.page.pathname, /^\/page\/[0-9a-f]{32}\/$/);
    assertMatch(siege.cookie, /^ipybox_page=[0-9a-f]{64}$/);
    await siege.assertWaits();
  });

  await step("a body without end is cut off", async () => {
    const headers = { ...siege.headers, "content-length": "99999999999" };
    const { page, target } = siege;
    assertEquals(await raw(page, `POST ${target.pathname}`, { ...headers, host: page.host }), 413);
    await siege.assertWaits();
  });

  await step(
    "nothing that pages are given is for others, framed, kept or from elsewhere",
    async () => {
      const { page, cookie } = siege;
      for (
        const path of ["", "main.js", "page.css", "icon.svg", "session", "nothing", "/page/open"]
      ) {
        const response = await fetch(siege.at(path), { headers: { cookie, "x-ipybox-page": "1" } });
        await response.body?.cancel();
        const header = (name: string) => response.headers.get(name);
        const policy = header("content-security-policy") ?? "";
        assertMatch(policy, /^default-src 'none'; script-src 'self'; style-src 'self'; /);
        for (const part of ["frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"]) {
          assert(policy.includes(part), part);
        }
        assert(!/unsafe|\*|data:|https:/.test(policy), policy);
        assertEquals([
          header("x-frame-options"),
          header("x-content-type-options"),
          header("referrer-policy"),
          header("cache-control"),
          header("cross-origin-opener-policy"),
          header("cross-origin-resource-policy"),
          header("cross-origin-embedder-policy"),
          header("access-control-allow-origin"),
        ], [
          "DENY",
          "nosniff",
          "no-referrer",
          "no-store",
          "same-origin",
          "same-origin",
          "require-corp",
          null,
        ], path);
      }
      const html = await (await fetch(page)).text();
      assertEquals(html.match(/(src|href)="[^"]*\/\/[^"]*"|<script>|style="|\son\w+=/g), null);
    },
  );

  await step("A8: only a whole decision on a waiting request counts", async () => {
    for (
      const body of [
        "",
        "1",
        '"true"',
        '"allow"',
        "{}",
        "[]",
        "null",
        "{",
        '{"approved":true}',
        '{"approved":"true","arguments":{}}',
        '{"decision":"allow"}',
        '{"action":"accept"}',
        '{"approved":true,"arguments":[]}',
        '{"approved":true,"arguments":null}',
        '{"approved":true,"arguments":{"a":1e400}}',
        `{"approved":true,"arguments":{"a":${"[".repeat(300)}${"]".repeat(300)}}}`,
        '{"approved":true,"extra":1}',
        '{"approved":true,"__proto__":{"a":1}}',
        '{"approved":true,"remember":true}',
        '{"approved":true,"remember":{"scope":"always","match":"everything"}}',
        '{"approved":true,"remember":{"scope":"ever","match":"tool"}}',
        '{"approved":false,"reason":1}',
      ]
    ) assertEquals(await siege.post({}, body), 422, body);
    const ids = [
      crypto.randomUUID(),
      siege.id.replace(/^./, (first) => first === "0" ? "1" : "0"),
      siege.id.replace(/.$/, (last) => last === "0" ? "1" : "0"),
    ];
    for (const id of ids) {
      const url = siege.at(`requests/${id}`);
      const response = await fetch(url, { method: "POST", headers: siege.headers, body: ALLOW });
      assertEquals(await response.json(), { fate: "unknown" }, id);
    }
    await siege.assertHeld();
    const response = await fetch(siege.target, {
      method: "POST",
      headers: siege.headers,
      body: ALLOW,
    });
    assertEquals(await response.json(), { fate: "unknown" }, "it was denied, and stays so");
    assertEquals(await siege.calls(), 0);
  });
});

Deno.test("A10: of decisions at the same time one counts", async () => {
  await using siege = await PageSiege.begin();
  const bodies = Array.from({ length: 20 }, (_, at) => at % 2 ? ALLOW : "false");
  const answers = await Promise.all(bodies.map(async (body) => {
    const response = await fetch(siege.target, { method: "POST", headers: siege.headers, body });
    return (await response.json()).fate;
  }));
  assertEquals(answers.filter((fate) => fate === "counted").length, 1);
  assertEquals(await siege.calls(), await siege.call === "ran" ? 1 : 0);
});

/** A site of an attacker, who sees what browsers send to it. */
class HostileSite implements AsyncDisposable {
  readonly cookies: string[] = [];
  readonly #server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
    this.cookies.push(request.headers.get("cookie") ?? "");
    return new Response("<!DOCTYPE html><title>hostile</title>", {
      headers: { "content-type": "text/html" },
    });
  });

  get port(): number {
    return this.#server.addr.port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }
}

browserTest(
  "pages of others decide, see and frame nothing, even where the cookie goes along",
  async (browser) => {
    await using siege = await PageSiege.begin();
    await using site = new HostileSite();
    const page = await openPage(browser, siege.server);
    await untilReady(page);
    const context = page.context();
    const own = new URL(page.url());
    // Another port of the same host: the same "site", to which SameSite cookies are sent.
    for (const origin of [`http://127.0.0.1:${site.port}`, `http://localhost:${site.port}`]) {
      const hostile = await context.newPage();
      await hostile.goto(`${origin}/page/`);
      const outcome = await hostile.evaluate(attackFrom, {
        page: own.href,
        target: new URL(`requests/${siege.id}`, own).href,
        body: ALLOW,
      });
      assertEquals(outcome, {
        fetched: "failed",
        simple: "failed",
        read: "failed",
        script: "failed",
        socket: "failed",
        events: "failed",
        frame: "empty",
        opener: "severed",
      }, origin);
      await hostile.close();
    }
    assertEquals(site.cookies.filter((cookie) => cookie.includes("ipybox_page")), []);
    assertEquals(siege.server.runner.channel.pending, 1);
    assert(await page.locator("#allow").isEnabled());
    await siege.assertHeld();
  },
);

browserTest("a form of another page posts in vain", async (browser) => {
  await using siege = await PageSiege.begin();
  await using site = new HostileSite();
  const page = await openPage(browser, siege.server);
  const target = new URL(`requests/${siege.id}`, page.url());
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]) {
    const hostile = await page.context().newPage();
    await hostile.goto(`http://127.0.0.1:${site.port}/`);
    await hostile.setContent(
      `<form method="post" enctype="${type}" action="${target}"><input name='{"approved":true,"x":"' value='"}'><button>x</button></form>`,
    );
    const [response] = await Promise.all([
      hostile.waitForResponse(target.href),
      hostile.getByRole("button").click(),
    ]);
    assertEquals(response.status(), 403, type);
    await hostile.close();
  }
  await siege.assertHeld();
});

browserTest("a name that leads to this machine shows no page", async (browser) => {
  await using siege = await PageSiege.begin();
  const { port, pathname } = siege.page;
  // Browsers take this machine for all names below localhost.
  const page = await browser.open(`http://rebound.localhost:${port}${pathname}`);
  const refusal = '{"error":"Wrong Host header: open the link unchanged"}';
  assertEquals(await page.locator("body").innerText(), refusal);
  const link = siege.server.approvalPage();
  await page.goto(`http://rebound.localhost:${port}${link.pathname}${link.search}`);
  assertEquals(await page.locator("body").innerText(), refusal);
  assertEquals(await page.context().cookies(), []);
  await siege.assertHeld();
});

browserTest("a request that code withdraws gives its place to no other one", async (browser) => {
  await using server = await askingServer();
  const page = await openPage(browser, server);
  const cancel = new AbortController();
  const bait = server.runner.run("raw", "echo", { path: "report.md" }, { signal: cancel.signal })
    .catch((error) => `${error.type}`);
  await untilReady(page);
  const hook = server.runner.run("raw", "count").then(() => "ran", (error) => `${error.type}`);
  await page.locator('#pending-count:text-is("2")').waitFor();

  cancel.abort();

  assertEquals(await bait, "cancelled");
  await page.locator(".outcome").getByText("Withdrawn").waitFor();
  await page.getByText("Choose the next request in the list").waitFor();
  assertMatch(await page.locator("#request-title").textContent() ?? "", /raw\.echo/);
  assert(!await page.locator("#decision").isVisible());
  const other = server.runner.run("raw", "count").then(() => "ran", (error) => `${error.type}`);
  await page.locator('#pending-count:text-is("2")').waitFor(); // what comes later does not, either
  await page.keyboard.press("y");
  assertMatch(await page.locator("#request-title").textContent() ?? "", /raw\.echo/);
  assertEquals(server.runner.channel.pending, 2);

  await page.locator("#pending button").first().click();
  await untilReady(page);
  await page.keyboard.press("n");
  assertEquals(await hook, "approval_rejected");
  await untilReady(page); // after a decision of its own, the page goes on by itself
  await page.keyboard.press("n");
  assertEquals(await other, "approval_rejected");
  assertEquals(browser.problems, []);
});
