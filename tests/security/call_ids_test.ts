/** Code of a durable session makes up ids of calls, repeats them, and loses its connections on purpose. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import type { ApprovalRequest } from "../../src/approval/request.ts";
import { type Logger, silentLogger } from "../../src/base/log.ts";
import { callDoor, callText } from "../support/door.ts";
import { DurableDoor, type Host } from "../support/durable_door.ts";
import { rawServer } from "../support/mcp.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { until } from "../support/wait.ts";

const ID = "0123456789abcdef0123456789abcdef";

/** A durable session at whose door a test says what code could say. */
class Scene implements AsyncDisposable {
  readonly door = new DurableDoor();
  readonly requests: ApprovalRequest[] = [];
  readonly errors: string[] = [];

  private constructor(readonly folder: TempFolder, readonly host: () => Promise<Host>) {}

  static async create(): Promise<Scene> {
    const folder = await TempFolder.create();
    const scene: Scene = new Scene(folder, async () => {
      const log: Logger = { ...silentLogger, error: (text) => void scene.errors.push(text) };
      const host = await scene.door.attach({
        folder: `${folder.path}/journal`,
        servers: { raw: rawServer("normal", `${folder.path}/effects`) },
        log,
      });
      host.server.runner.channel.attach((request) => void scene.requests.push(request));
      return host;
    });
    return scene;
  }

  run(body: string, head: object): Promise<Record<string, unknown> | undefined> {
    return callDoor(this.door.door, "run", body, head);
  }

  async effects(): Promise<number> {
    const text = await Deno.readTextFile(`${this.folder.path}/effects`).catch(() => "");
    return text.split("\n").filter((line) => line === "tools/call").length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.door[Symbol.asyncDispose]();
    await this.folder[Symbol.asyncDispose]();
  }
}

const COUNT = '{"server":"raw","tool":"count","arguments":{}}';
/** What the same id is given to in place of the call that it is of. */
const OTHERS = [
  '{"server":"raw","tool":"count","arguments":{"more":1}}',
  '{"server":"raw","tool":"echo","arguments":{}}',
  '{"server":"other","tool":"count","arguments":{}}',
];

function messageOf(answer: Record<string, unknown> | undefined): string {
  return (answer as { error?: { message: string } })?.error?.message ?? JSON.stringify(answer);
}

Deno.test("an id opens only the call that it was first given to, in whatever state that is", async () => {
  await using scene = await Scene.create();
  await using _host = await scene.host();
  const refused = async () => {
    for (const body of OTHERS) {
      const message = messageOf(await scene.run(body, { id: ID }));
      assertStringIncludes(message, `its id ${ID} belongs to another call`);
    }
    const shell = '{"kind":"shell","arguments":{}}';
    const answer = await callDoor(scene.door.door, "approve", shell, { id: ID });
    assertStringIncludes(messageOf(answer), "belongs to another call");
  };
  const first = scene.run(COUNT, { id: ID });
  await until(() => scene.requests.length === 1);
  await refused(); // while it waits
  await scene.requests[0]?.accept();
  await first;
  await refused(); // when it is over
  assertEquals([scene.requests.length, await scene.effects()], [1, 1]);
  assertStringIncludes(scene.errors[0] ?? "", ID); // a person can see it
});

Deno.test("calls without an id, and with one that none of ours is, are refused", async () => {
  await using scene = await Scene.create();
  await using _host = await scene.host();
  assertEquals(await scene.run(COUNT, {}), {
    refused: "A call of a durable session needs an id",
  });
  const ids = [ID.toUpperCase(), `${ID}0`, "", "../../x", `${ID}\n`, 1, null, [ID], { id: ID }];
  for (const id of ids) {
    assertEquals(await scene.run(COUNT, { id }), { refused: "This is not a tool call" });
  }
  const long = await scene.run(COUNT, { id: "a".repeat(10_000) });
  assertEquals(long, { refused: "The first line exceeds 4096 bytes" });
  assertEquals([scene.requests.length, await scene.effects()], [0, 0]);
});

Deno.test("an id of another session gives nothing of that session", async () => {
  await using one = await Scene.create();
  await using other = await Scene.create();
  await using _first = await one.host();
  await using _second = await other.host();
  const answer = one.run(COUNT, { id: ID });
  await until(() => one.requests.length === 1);
  await one.requests[0]?.accept();
  await answer;
  const stolen = other.run(COUNT, { id: ID });
  await until(() => other.requests.length === 1); // it is a call like any other there
  await other.requests[0]?.reject("no");
  assertStringIncludes(messageOf(await stolen), "was refused: no");
  assertEquals(await other.effects(), 0);
});

Deno.test("connections that are lost on purpose leave no question, and no call that is sent later", async () => {
  await using scene = await Scene.create();
  await using host = await scene.host();
  const { hostname, port } = scene.door.door;
  const connections = await Promise.all(Array.from({ length: 100 }, async (_, number) => {
    const connection = await Deno.connect({ hostname, port });
    const id = number.toString(16).padStart(32, "0");
    const text = callText(scene.door.door, "run", COUNT, { id });
    await connection.write(new TextEncoder().encode(text));
    return connection;
  }));
  await until(() => scene.requests.length === 100);
  for (const connection of connections) connection.close();
  await until(() => host.server.runner.channel.pending === 0);
  for (const request of scene.requests) assertEquals(await request.accept(), false);
  assertEquals([host.journal.waiting().length, await scene.effects()], [100, 0]);
});

Deno.test("a call that cannot be written down is not sent, and code does not learn the path", async () => {
  await using scene = await Scene.create();
  await using host = await scene.host();
  const waiting = scene.run(COUNT, { id: ID });
  await until(() => scene.requests.length === 1);
  {
    using other = new DatabaseSync(`${scene.folder.path}/journal/calls.db`);
    other.exec("BEGIN IMMEDIATE");
    await scene.requests[0]?.accept();
    const refused = [await waiting, await scene.run(COUNT, { id: "1".repeat(32) })];
    for (const answer of refused) {
      assertEquals(
        messageOf(answer),
        "The call was not made: the session's journal cannot be written (see ipybox's log)",
      );
    }
  }
  assertStringIncludes(scene.errors[0] ?? "", `${scene.folder.path}/journal/calls.db`);
  assertEquals([scene.requests.length, await scene.effects()], [1, 0]);
  // It was never sent, so it may be asked for again once that can be noted.
  const again = scene.run(COUNT, { id: ID });
  await until(() => scene.requests.length === 2);
  await scene.requests[1]?.accept();
  await again;
  assertEquals([host.journal.waiting().length, await scene.effects()], [0, 1]);
});

Deno.test("arguments that were changed in the journal are asked about again", async () => {
  await using scene = await Scene.create();
  const path = `${scene.folder.path}/journal/calls.db`;
  {
    await using _host = await scene.host();
    const answer = scene.run(COUNT, { id: ID });
    await until(() => scene.requests.length === 1);
    await scene.requests[0]?.accept({ arguments: { harmless: true } });
    await answer;
    scene.door.detach();
  }
  {
    using database = new DatabaseSync(path);
    database.exec("UPDATE calls SET state = 'decided', edited = '{\"harmful\":true}'");
  }
  await using _host = await scene.host();
  const answer = scene.run(COUNT, { id: ID });
  await until(() => scene.requests.length === 2);
  await scene.requests[1]?.reject("no");
  assertStringIncludes(messageOf(await answer), "was refused: no");
  assertEquals(await scene.effects(), 1);
});
