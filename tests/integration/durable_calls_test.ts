/** Calls of a durable session: the code asks again until there is an answer, each is sent at most once. */
import { assert, assertEquals } from "@std/assert";
import type { ApprovalRequest } from "../../src/approval/request.ts";
import { LastingDoor } from "../support/lasting_door.ts";
import { pythonJson, rawServer, until } from "../support/mcp.ts";
import { TempFolder } from "../support/temp_folder.ts";

const IMPORTS = `
import asyncio, json, os, threading, time
import ipybox_runtime as r
raw = r.ToolRunner("raw")
`;

Deno.test("a call that waits is asked about again by the next host", async () => {
  await using folder = await TempFolder.create();
  await using door = new LastingDoor();
  const effects = `${folder.path}/effects`;
  const options = { folder: `${folder.path}/j`, servers: { raw: rawServer("normal", effects) } };
  const requests: ApprovalRequest[] = [];
  const first = await door.attach(options);
  first.server.runner.channel.attach((request) => void requests.push(request));
  const answer = pythonJson(
    `${IMPORTS}
print(json.dumps(raw.run_sync("count").text))`,
    { door: door.door, durable: true },
  );
  await until(() => requests.length === 1);
  door.detach();
  await first[Symbol.asyncDispose]();
  await using second = await door.attach(options);
  const [shown] = second.journal.waiting();
  second.server.runner.channel.attach((request) => void requests.push(request));
  await until(() => requests.length === 2);
  assertEquals(requests[1]?.askedAt, shown?.since);
  assertEquals(requests[1]?.callId, requests[0]?.callId);
  await requests[1]?.accept();
  assertEquals(await answer, "1");
  assertEquals(second.journal.waiting(), []);
  assert((await Deno.readTextFile(effects)).length > 0);
});
