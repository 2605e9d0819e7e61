import { assertEquals, assertThrows } from "@std/assert";
import { isAtOrBelow, OAuthHttpError, trustedUrl } from "./http.ts";

const PUBLIC = new URL("https://mcp.example.com/mcp");
const INTRANET = new URL("https://10.1.2.3/mcp");
const LOCAL = new URL("http://127.0.0.1:8000/mcp");

function isTrusted(text: string, server: URL): boolean {
  try {
    return trustedUrl("address", text, server).href !== "";
  } catch (error) {
    if (error instanceof OAuthHttpError) return false;
    throw error;
  }
}

Deno.test("trustedUrl() lets servers lead to https on the network", () => {
  for (const server of [PUBLIC, INTRANET, LOCAL]) {
    assertEquals(isTrusted("https://auth.example.com/token", server), true);
    assertEquals(isTrusted("http://auth.example.com/token", server), false);
  }
});

Deno.test("trustedUrl() lets no server lead further inside than where it is", () => {
  const loopback = [
    "https://127.0.0.1/",
    "https://127.1/",
    "https://0x7f000001/",
    "https://2130706433/",
    "https://localhost/",
    "https://localhost./",
    "https://a.localhost/",
    "https://[::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:0:127.0.0.1]/",
    "https://[64:ff9b::127.0.0.1]/",
  ];
  const intranet = [
    "https://10.0.0.1/",
    "https://172.16.0.1/",
    "https://192.168.1.1/",
    "https://100.64.0.1/",
    "https://[fd00::1]/",
    "https://[::ffff:10.0.0.1]/",
    "https://[fec0::1]/",
    "https://nexus/",
    "https://nexus./",
    "https://printer.local/",
    "https://sso.corp.internal/",
    "https://router.home.arpa/",
  ];
  for (const url of loopback) {
    assertEquals([url, isTrusted(url, PUBLIC)], [url, false]);
    assertEquals([url, isTrusted(url, INTRANET)], [url, false]);
    assertEquals([url, isTrusted(url, LOCAL)], [url, true]);
  }
  for (const url of intranet) {
    assertEquals([url, isTrusted(url, PUBLIC)], [url, false]);
    assertEquals([url, isTrusted(url, INTRANET)], [url, true]);
  }
});

Deno.test("trustedUrl() lets nobody lead to where clouds keep secrets", () => {
  const urls = [
    "https://169.254.169.254/latest/meta-data",
    "https://[fe80::1]/",
    "https://[::ffff:169.254.169.254]/",
    "https://0.0.0.0/",
    "https://[::]/",
    "https://224.0.0.1/",
  ];
  for (const url of urls) {
    for (const server of [PUBLIC, INTRANET, LOCAL]) {
      assertEquals([url, isTrusted(url, server)], [url, false]);
    }
  }
});

Deno.test("trustedUrl() takes http on this machine, from servers on it alone", () => {
  assertEquals(isTrusted("http://localhost:9000/token", LOCAL), true);
  assertEquals(isTrusted("http://localhost:9000/token", PUBLIC), false);
  assertEquals(isTrusted("http://mcp.example.com/token", PUBLIC), false);
});

Deno.test("trustedUrl() says what is wrong, without the address", () => {
  const error = assertThrows(
    () => trustedUrl("login page", "javascript:secret()", PUBLIC),
    OAuthHttpError,
  );
  assertEquals(error.message, "the login page that it names is not https");
});

Deno.test("isAtOrBelow() takes names below a host, and tells the ports of one machine apart", () => {
  const own = [
    ["https://example.com:8443/", "https://example.com/"],
    ["https://MCP.example.com./", "https://example.com/"],
    ["https://a.b.example.co.uk/", "https://example.co.uk/"],
    ["http://127.0.0.1:8000/", "http://127.0.0.1:8000/x"],
  ] as const;
  const others = [
    ["https://bank-mcp.workers.dev/", "https://notes-mcp.workers.dev/"],
    ["https://app.example.com/", "https://api.example.com/"],
    ["https://example.com/", "https://mcp.example.com/"],
    ["https://badexample.com/", "https://example.com/"],
    ["https://example.com.evil.org/", "https://example.com/"],
    ["http://127.0.0.1:8000/", "http://127.0.0.1:8001/"],
    ["http://localhost:8000/", "http://localhost:8001/"],
    ["http://a.localhost:8000/", "http://a.localhost:8001/"],
    ["http://a.localhost/", "http://localhost/"],
    ["https://[2001:db8::1]/", "https://[2001:db8::2]/"],
  ] as const;
  for (const [one, owner] of own) {
    assertEquals(isAtOrBelow(new URL(one), new URL(owner)), true, one);
  }
  for (const [one, owner] of others) {
    assertEquals(isAtOrBelow(new URL(one), new URL(owner)), false, one);
  }
});
