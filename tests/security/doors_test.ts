/** Attacks on the two doors, from the kernel's side and from web pages. */
import { assertEquals, assertFalse, assertMatch } from "@std/assert";
import { silentLogger } from "../../src/base/log.ts";
import { type Door, ToolServer } from "../../src/calls/tool_server.ts";
import { rawServer, until } from "../support/mcp.ts";
import { TempFolder } from "../support/temp_folder.ts";

const encoder = new TextEncoder();

/** Sends bytes as they are and gives the status of the answer, or 0 for none. */
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
    assertEquals(await post(kernelDoor, "/run", CALL), 200);
    await until(started);
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

Deno.test("A3: a rebound name opens neither door", async () => {
  await running(async ({ kernelDoor, applicationDoor }, started) => {
    for (
      const Host of ["evil.example", `evil.example:${kernelDoor.port}`, "127.0.0.1.evil.example"]
    ) {
      assertEquals(await post(kernelDoor, "/run", CALL, { Host }), 421, Host);
      assertEquals(await post(applicationDoor, "/reset", "{}", { Host }), 421, Host);
      const Authorization = `Bearer ${applicationDoor.token}`;
      assertEquals(await upgrade(applicationDoor, "/approval", { Host, Authorization }), 421, Host);
    }
    assertFalse(await started());
  });
});

Deno.test("A4: a page's form runs nothing", async () => {
  await running(async ({ kernelDoor, applicationDoor }, started) => {
    const types = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""];
    for (const type of types) {
      assertEquals(await post(kernelDoor, "/run", CALL, { "Content-Type": type }), 415, type);
    }
    const Origin = "https://evil.example";
    assertEquals(await post(kernelDoor, "/run", CALL, { Origin }), 403);
    assertEquals(await post(applicationDoor, "/reset", "{}", { Origin }), 403);
    assertFalse(await started());
  });
});

Deno.test("A5, A7: the kernel's token and door lead nowhere near the application's", async () => {
  await running(async ({ kernelDoor, applicationDoor }) => {
    const { token } = kernelDoor;
    for (const path of ["/reset", "/approval", "/servers", "/servers/evil", "/", "/../reset"]) {
      assertEquals(await post(kernelDoor, path, "{}"), 404, path);
      assertEquals(await post({ ...applicationDoor, token }, path, "{}"), 401, path);
    }
    const Authorization = `Bearer ${token}`;
    assertEquals(await upgrade(kernelDoor, "/approval", { Authorization }), 404);
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
      assertEquals(await post(kernelDoor, "/run", body), 400, body.slice(0, 90));
    }
    assertEquals(await post(kernelDoor, "/approve", '{"kind":"tool","arguments":{}}'), 400);
    for (const server of ["nowhere", "../raw", "__proto__", "constructor", "raw\\u0000"]) {
      assertEquals(await post(kernelDoor, "/run", CALL.replace("raw", server)), 200);
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
  const { url, token } = server.kernelDoor;
  const hostile = [
    '{"path":"shown","path":"/etc/passwd"}',
    '{"__proto__":{"path":"x"},"n":1.0,"m":1E2,"big":123456789012345678901234567890}',
    '{"lone":"\\ud800","nul":"\\u0000","dots":"\\u202e"}',
    '{"a":{"b":{"c":[{"d":-0}]}}}',
  ];
  for (const args of hostile) {
    const response = await fetch(new URL("/run", url), {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: `{"server":"raw","tool":"echo","arguments":${args}}`,
    });
    const line = String((await response.json()).result.content[0].text);
    const sent = /"arguments":(.*)},"jsonrpc"/.exec(line)?.[1];
    assertEquals(sent, shown.at(-1));
  }
  assertEquals(shown[0], '{"path":"/etc/passwd"}', "of two keys the last one is shown and sent");
  assertMatch(shown[1] ?? "", /"n":1\.0,"m":1E2,"big":123456789012345678901234567890/);
});

Deno.test("A11: neither door is open to another machine or without a token", async () => {
  await running(async ({ kernelDoor, applicationDoor }, started) => {
    for (const door of [kernelDoor, applicationDoor]) {
      assertEquals(door.hostname, "127.0.0.1");
      assertEquals(door.token.length, 64);
      for (const Authorization of ["", "Bearer ", "Bearer null", `bearer${door.token}`]) {
        assertEquals(await post(door, "/run", CALL, { Authorization }), 401, Authorization);
        assertEquals(await post(door, "/status", "", { Authorization }), 401, Authorization);
      }
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

Deno.test("A14: a body that is too large is refused while it comes, whatever it declares", async () => {
  await running(async ({ kernelDoor }, started) => {
    assertEquals(await post(kernelDoor, "/run", "", { "Content-Length": "99999999999" }), 413);
    const head = [
      "POST /run HTTP/1.1",
      "Host: 127.0.0.1",
      `Authorization: Bearer ${kernelDoor.token}`,
      "Content-Type: application/json",
      "Transfer-Encoding: chunked\n\n",
    ].join("\n");
    const chunk = `10000\r\n${" ".repeat(0x10000)}\r\n`;
    const status = await send(kernelDoor, head, chunk.repeat(40));
    assertEquals(status, 411, "a body whose size is not told is not read at all");
    assertFalse(await started());
  });
});
