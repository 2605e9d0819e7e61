import { assertEquals } from "@std/assert";
import { TempFolder } from "../../../tests/support/temp_folder.ts";
import { type Login, LoginStore } from "./store.ts";

const SERVER = new URL("https://mcp.example.com/mcp");

function storeIn(folder: string): LoginStore {
  const store = LoginStore.find(SERVER, { folder });
  if (store === undefined) throw new Error("There is no place for logins");
  return store;
}

function login(accessToken: string): Login {
  return { server: SERVER.href, issuer: "https://auth.example.com", clientId: "me", accessToken };
}

Deno.test("LoginStore reads whole logins while they are replaced", async () => {
  await using folder = await TempFolder.create();
  const [writer, reader] = [storeIn(folder.path), storeIn(folder.path)];
  await writer.write(login("token-0"));
  let writing = true;
  const writes = (async () => {
    for (let round = 1; round <= 50; round++) await writer.write(login(`token-${round}`));
    writing = false;
  })();

  let wholes = 0;
  while (writing) {
    const read = await reader.read();
    if (read?.accessToken?.startsWith("token-")) wholes++;
    else throw new Error(`A reader saw ${JSON.stringify(read)}`);
  }
  await writes;

  assertEquals(wholes > 0, true);
  assertEquals((await reader.read())?.accessToken, "token-50");
});

Deno.test("LoginStore lets one at a time change a login", async () => {
  await using folder = await TempFolder.create();
  const [one, other] = [storeIn(folder.path), storeIn(folder.path)];
  const order: string[] = [];
  const lock = await one.lock();
  const waiting = other.lock().then((turn) => {
    order.push("other");
    turn[Symbol.dispose]();
  });
  await one.write(login("first"));
  order.push("one");
  lock[Symbol.dispose]();
  await waiting;

  assertEquals(order, ["one", "other"]);
});
