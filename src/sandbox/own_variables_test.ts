import { assertEquals } from "@std/assert";
import { inOwnProcess } from "../../tests/support/own_process.ts";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { acceptNames, ownNames, recordNames } from "./own_variables.ts";

Deno.test("all variables of a workspace count until code could write there, then those accepted", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  await Deno.writeTextFile(`${workspace}/.env`, "A=1\nB=2\n");
  assertEquals(await ownNames(workspace), undefined);
  await recordNames(workspace);
  await Deno.writeTextFile(`${workspace}/.env`, "A=1\nB=3\nC=4\n");
  await recordNames(workspace); // the next session
  assertEquals(await ownNames(workspace), ["A", "B"]);
  assertEquals(await acceptNames(workspace, ["C"]), true);
  assertEquals(await ownNames(workspace), ["A", "B", "C"]);
});

Deno.test("no variable counts in a folder of a workspace in which code ran, until it is accepted", async () => {
  await using outer = await TempFolder.create();
  const inner = `${outer.path}/deep/inner`;
  await Deno.mkdir(inner, { recursive: true });
  await Deno.writeTextFile(`${inner}/.env`, "A=1");
  assertEquals(await ownNames(inner), undefined);
  await recordNames(outer.path);
  assertEquals(await ownNames(inner), []);
  await recordNames(inner);
  assertEquals(await ownNames(inner), []);
  await acceptNames(inner, ["A"]);
  assertEquals(await ownNames(inner), ["A"]);
});

Deno.test("a damaged record accepts no variable", async () => {
  await using state = await TempFolder.create();
  await using folder = await TempFolder.create();
  await Deno.writeTextFile(`${folder.path}/.env`, "A=1");
  const code = `const { ownNames, recordNames } = await load("src/sandbox/own_variables.ts");
const workspace = ${JSON.stringify(folder.path)};
const records = ${JSON.stringify(`${state.path}/ipybox/variables/`)};
await recordNames(workspace);
const before = await ownNames(workspace);
for await (const { name } of Deno.readDir(records)) {
  if (name.endsWith(".json")) await Deno.writeTextFile(records + name, "{");
}
return [before, await ownNames(workspace)];`;
  assertEquals(await inOwnProcess(code, { XDG_STATE_HOME: state.path }), [["A"], []]);
});
