/** Attacks on the two doors, from the kernel's side and from web pages. */
import { assert, assertEquals, assertFalse, assertMatch, fail } from "@std/assert";
import { silentLogger } from "../../src/base/log.ts";
import { type Door, ToolServer } from "../../src/calls/tool_server.ts";
import { callDoor, callText, sayAtDoor } from "../support/door.ts";
import { rawServer } from "../support/mcp.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { until } from "../support/wait.ts";

const encoder = new TextEncoder();

/** Sends a request of HTTP as it is and gives the status of the answer, or 0 for none. */
async function send(door: Door, head: string, body: string | Uint8Array = ""): Promise<number> {
  const connection = await Deno.connect({ hostname: door.hostname, port: door.port });
  try {
    await writeAll(connection, encoder.encode(head.replaceAll("\n", "\r\n")));
    await writeAll(connection, typeof body === "string" ? encoder.encode(body) : body);
    const buffer = new Uint8Array(4096);
    const size = await connection.read(buffer);
    const answer = new TextDecoder().decode(buffer.subarray(0, size ?? 0));
    return Number(/^HTTP\/1.1 (\d+)/.exec(answer)?.[1] ?? 0);
  } catch {
    return 0;
  } finally {
    connection.close();
  }
}

async function writeAll(connection: Deno.Conn, bytes: Uint8Array): Promise<void> {
  while (bytes.length > 0) bytes = bytes.subarray(await connection.write(bytes));
}

function post(
  door: Door,
  path: string,
  body: string,
  headers: Record<string, string> = {},
): Promise<number> {
  const all = {
    Host: `127.0.0.1:${door.port}`,
    Authorization: `Bearer ${door.token}`,
    "Content-Type": "application/json",
    "Content-Length": `${encoder.encode(body).length}`,
    Connection: "close",
    ...headers,
  };
  const lines = Object.entries(all).filter(([, value]) => value !== "").map(([k, v]) =>
    `${k}: ${v}`
  );
  return send(door, `POST ${path} HTTP/1.1\n${lines.join("\n")}\n\n`, body);
}

function put(name: string, door: Door, headers: Record<string, string> = {}): string {
  const all = {
    Host: `127.0.0.1:${door.port}`,
    Authorization: `Bearer ${door.token}`,
    "Content-Type": "application/json",
    "Content-Length": "18",
    Connection: "close",
    ...headers,
  };
  const lines = Object.entries(all).filter(([, value]) => value !== "").map(([k, v]) =>
    `${k}: ${v}`
  );
  return `PUT /servers/${name} HTTP/1.1\n${lines.join("\n")}\n\n`;
}

function upgrade(door: Door, path: string, headers: Record<string, string>): Promise<number> {
  const all = {
    Host: `127.0.0.1:${door.port}`,
    Upgrade: "websocket",
    Connection: "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  return send(door, `GET ${path} HTTP/1.1\n${lines.join("\n")}\n\n`);
}

/** Why the kernel's door refuses a call; `undefined` where it answers. */
async function refusal(door: Door, name: string, body: string, head = {}): Promise<unknown> {
  return (await callDoor(door, name, body, head) ?? fail("hung up")).refused;
}

async function running(
  test: (server: ToolServer, started: () => Promise<boolean>) => Promise<void>,
): Promise<void> {
  await using folder = await TempFolder.create();
  const journal = `${folder.path}/journal`;
  await using server = await ToolServer.start({
    workspace: folder.path,
    servers: { raw: rawServer("normal", journal) },
    approval: "allow",
    log: silentLogger,
    maxBodyBytes: 1 << 20,
  });
  await test(server, () => Deno.readTextFile(journal).then(() => true, () => false));
}

const CALL = '{"server":"raw","tool":"count","arguments":{}}';

Deno.test("what the other attacks vary is let through as it is", async () => {
  await running(async ({ kernelDoor, applicationDoor }, started) => {
    assertEquals(await refusal(kernelDoor, "run", CALL), undefined);
    await until(started);
    assertEquals(await post(applicationDoor, "/page-link", ""), 200);
    const Authorization = `Bearer ${applicationDoor.token}`;
    assertEquals(await upgrade(applicationDoor, "/approval", { Authorization }), 101);
  });
});

Deno.test("A1: the approval WebSocket opens to its own token alone, and not from the URL", async () => {
  await running(async ({ kernelDoor, applicationDoor }) => {
    const { token } = applicationDoor;
    const attempts: [string, Record<string, string>][] = [
      ["/approval", {}],
      ["/approval", { Authorization: "Bearer wrong" }],
      ["/approval", { Authorization: `Bearer ${token.slice(0, -1)}` }],
      ["/approval", { Authorization: `Bearer ${token}${token}` }],
      ["/approval", { Authorization: `Basic ${token}` }],
      ["/approval", { Authorization: `Bearer ${kernelDoor.token}` }],
      [`/approval?token=${token}`, {}],
    ];
    for (const [path, headers] of attempts) {
      assertEquals(await upgrade(applicationDoor, path, headers), 401, JSON.stringify(headers));
    }
    assertEquals(applicationDoor.token === kernelDoor.token, false);
  });
});

Deno.test("A2: no page opens the approval WebSocket, whatever it knows", async () => {
  await running(async ({ applicationDoor }) => {
    const Authorization = `Bearer ${applicationDoor.token}`;
    for (const Origin of ["http://evil.example", "null", "http://localhost:9999", "file://"]) {
      const status = await upgrade(applicationDoor, "/approval", { Authorization, Origin });
      assertEquals(status, 403, Origin);
    }
  });
});

Deno.test("A3: a rebound name opens no door", async () => {
  await running(async ({ applicationDoor }, started) => {
    const { port } = applicationDoor;
    for (const Host of ["evil.example", `evil.example:${port}`, "127.0.0.1.evil.example"]) {
      assertEquals(await post(applicationDoor, "/reset", "{}", { Host }), 421, Host);
      const Authorization = `Bearer ${applicationDoor.token}`;
      assertEquals(await upgrade(applicationDoor, "/approval", { Host, Authorization }), 421, Host);
    }
    assertFalse(await started());
  });
});

Deno.test("A3, A4: what a page can send, were it all that the kernel knows, runs nothing", async () => {
  await running(async ({ kernelDoor, applicationDoor }, started) => {
    const call = callText(kernelDoor, "run", CALL);
    for (const first of ["POST /run HTTP/1.1", "GET / HTTP/1.1", "OPTIONS * HTTP/1.1", ""]) {
      for (const end of ["\n", "\r\n"]) {
        const head = [first, `Host: 127.0.0.1:${kernelDoor.port}`, "", ""].join(end);
        assertMatch(`${(await sayAtDoor(kernelDoor, head + call))?.refused}`, /not a tool call/);
      }
    }
    assertMatch(
      `${(await sayAtDoor(kernelDoor, "\x16\x03\x01\n" + call))?.refused}`,
      /not a tool call/,
    );
    const types = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""];
    for (const type of types) {
      const body = '{"command":"true"}';
      const headers = { "Content-Type": type };
      assertEquals(await send(applicationDoor, put("evil", applicationDoor, headers), body), 415);
    }
    const Origin = "https://evil.example";
    assertEquals(await post(applicationDoor, "/reset", "{}", { Origin }), 403);
    assertFalse(await started());
  });
});

Deno.test("A5, A7: the kernel's token and door lead nowhere near the application's", async () => {
  await running(async ({ kernelDoor, applicationDoor }) => {
    const { token } = kernelDoor;
    for (const path of ["/reset", "/approval", "/servers", "/servers/evil", "/", "/../reset"]) {
      for (const name of [path, path.slice(1)]) {
        assertMatch(`${await refusal(kernelDoor, name, "{}")}`, /not a tool call/, name);
      }
      // The root only leads people to the page.
      const refused = path === "/" ? 405 : 401;
      assertEquals(await post({ ...applicationDoor, token }, path, "{}"), refused, path);
    }
    const Authorization = `Bearer ${token}`;
    assertEquals(await upgrade(kernelDoor, "/approval", { Authorization }), 0);
  });
});

Deno.test("A6: a request with a command, a URL or anything else of its own starts nothing", async () => {
  await running(async ({ kernelDoor }, started) => {
    const hostile = [
      `{"server":"raw","tool":"count","arguments":{},"server_params":{"command":"sh","args":["-c","id"]}}`,
      `{"server_name":"x","server_params":{"command":"sh"},"tool_name":"y","tool_args":{}}`,
      `{"server":"raw","tool":"count","arguments":{},"extra":1}`,
      `{"server":"raw","tool":"count","arguments":{},"__proto__":{"command":"sh"}}`,
      `{"server":{"command":"sh"},"tool":"count","arguments":{}}`,
      `{"server":["raw"],"tool":"count","arguments":{}}`,
      `{"server":"raw","tool":"count"}`,
      `{"server":"raw","tool":"count","arguments":[]}`,
      `{"server":"raw","tool":"count","arguments":null}`,
      `{"server":"raw","tool":"count","arguments":{"a":NaN}}`,
      `{"server":"raw","tool":"count","arguments":{"a":1e400}}`,
      `{"server":"raw","tool":"count","arguments":{"a":${"[".repeat(5000)}${"]".repeat(5000)}}}`,
      `[${CALL}]`,
      "",
      "{",
    ];
    for (const body of hostile) {
      assert(await refusal(kernelDoor, "run", body) !== undefined, body.slice(0, 90));
    }
    assert(await refusal(kernelDoor, "approve", '{"kind":"tool","arguments":{}}') !== undefined);
    const heads = [
      { server_params: { command: "sh" } },
      { approved: true },
      { line: "1" },
      {
        call: ["run"],
      },
      { size: -1 },
      { size: 1.5 },
      { size: "46" },
      { token: null },
      { token: [kernelDoor.token] },
    ];
    for (const head of heads) {
      const answer = await refusal(kernelDoor, "run", CALL, head);
      assertMatch(`${answer}`, /not a tool call/, JSON.stringify(head));
    }
    const pollute = callText(kernelDoor, "run", CALL).replace("{", '{"__proto__":{"token":"x"},');
    assertMatch(`${(await sayAtDoor(kernelDoor, pollute))?.refused}`, /not a tool call/);
    for (const server of ["nowhere", "../raw", "__proto__", "constructor", "raw\\u0000"]) {
      assertEquals(await refusal(kernelDoor, "run", CALL.replace("raw", server)), undefined);
    }
    assertFalse(await started());
  });
});

Deno.test("A9: the arguments that run are the bytes that were shown", async () => {
  await using server = await ToolServer.start({
    servers: { raw: rawServer() },
    log: silentLogger,
  });
  const shown: string[] = [];
  using _approver = server.runner.channel.attach((request) => {
    shown.push(request.argumentsJson);
    try {
      Object.assign(request.toolArgs, { path: "changed" });
    } catch {
      // it is frozen, which is the point
    }
    return void request.accept();
  });
  const hostile = [
    '{"path":"shown","path":"/etc/passwd"}',
    '{"__proto__":{"path":"x"},"n":1.0,"m":1E2,"big":123456789012345678901234567890}',
    '{"lone":"\\ud800","nul":"\\u0000","dots":"\\u202e"}',
    '{"a":{"b":{"c":[{"d":-0}]}}}',
  ];
  for (const args of hostile) {
    const body = `{"server":"raw","tool":"echo","arguments":${args}}`;
    const answer = JSON.stringify(await callDoor(server.kernelDoor, "run", body));
    const line = JSON.parse(answer).response.result.content[0].text;
    const sent = /"arguments":(.*)},"jsonrpc"/.exec(line)?.[1];
    assertEquals(sent, shown.at(-1));
  }
  assertEquals(shown[0], '{"path":"/etc/passwd"}', "of two keys the last one is shown and sent");
  assertMatch(shown[1] ?? "", /"n":1\.0,"m":1E2,"big":123456789012345678901234567890/);
});

Deno.test("A11: neither door is open to another machine or without a token", async () => {
  await running(async ({ kernelDoor, applicationDoor }, started) => {
    for (const { hostname, token } of [kernelDoor, applicationDoor]) {
      assertEquals(hostname, "127.0.0.1");
      assertEquals(token.length, 64);
    }
    const wrong = [applicationDoor.token, kernelDoor.token.slice(1), `${kernelDoor.token}0`];
    for (const token of ["", "null", ...wrong]) {
      assertEquals(await refusal(kernelDoor, "run", CALL, { token }), "Wrong token", token);
    }
    const { token } = applicationDoor;
    for (const Authorization of ["", "Bearer ", "Bearer null", `bearer${token}`]) {
      assertEquals(await post(applicationDoor, "/reset", "", { Authorization }), 401);
      assertEquals(await post(applicationDoor, "/status", "", { Authorization }), 401);
    }
    assertFalse(await started());
  });
});

Deno.test("A12: names that are no names register nothing", async () => {
  await running(async (server) => {
    const { url, token } = server.applicationDoor;
    const register = (name: string) =>
      fetch(new URL(`/servers/${name}`, url), {
        method: "PUT",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: '{"command":"true"}',
      });
    const names = [
      "..%2fx",
      "%2fetc",
      "__init__",
      "class",
      "a%00b",
      "A",
      "ipybox",
      "a".repeat(10_000),
    ];
    for (const name of names) {
      const response = await register(name);
      assertEquals(response.status, 400, name);
      await response.text();
    }
    const registered = await register("good");
    assertEquals(registered.status, 200);
    await registered.text();
    assertEquals(server.runner.registry.names, ["good", "raw"]);
  });
});

Deno.test("a tool server ends although a request never comes whole", async () => {
  const server = await ToolServer.start({ log: silentLogger });
  const { hostname, port, token } = server.applicationDoor;
  using connection = await Deno.connect({ hostname, port });
  const headers = [
    "PUT /servers/files HTTP/1.1",
    `Host: ${hostname}:${port}`,
    `Authorization: Bearer ${token}`,
    "Content-Type: application/json",
    "Content-Length: 100",
    "Expect: 100-continue", // whose answer tells that the request is being read
  ];
  await writeAll(connection, encoder.encode(`${headers.join("\r\n")}\r\n\r\n`));
  const buffer = new Uint8Array(100);
  const size = await connection.read(buffer);
  assertMatch(new TextDecoder().decode(buffer.subarray(0, size ?? 0)), /^HTTP\/1.1 100 /);

  await server[Symbol.asyncDispose]();

  assertEquals(await connection.read(buffer).catch(() => null), null);
});

Deno.test("A14: what is too large is refused before it comes, and nobody waits for its end", async () => {
  await running(async ({ kernelDoor, applicationDoor }, started) => {
    const huge = { size: 99_999_999_999 };
    assertMatch(`${await refusal(kernelDoor, "run", "", huge)}`, /exceeds 1048576 bytes/);
    const stranger = await refusal(kernelDoor, "run", "", { ...huge, token: "x" });
    assertEquals(stranger, "Wrong token", "who has no token learns no more");
    const filler = new Uint8Array(1 << 20).fill(0x20);
    const endless = await sayAtDoor(kernelDoor, ...Array(40).fill(filler));
    assertMatch(`${endless?.refused}`, /first line exceeds/);
    const headers = { "Content-Length": "99999999999" };
    assertEquals(await send(applicationDoor, put("evil", applicationDoor, headers)), 413);
    assertFalse(await started());
  });
});
