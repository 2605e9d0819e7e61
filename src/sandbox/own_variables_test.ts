import { assertEquals } from "@std/assert";
import { inOwnProcess } from "../../tests/support/own_process.ts";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import {
  acceptVariables,
  ownVariables,
  parseDotenv,
  readVariables,
  recordVariables,
} from "./own_variables.ts";

Deno.test("parseDotenv() reads quotes, comments and export prefixes", () => {
  const text = `# a comment\nA=1\nexport B="two words" # trailing\nC='$A'\nEMPTY=\n`;
  assertEquals(parseDotenv(text), { A: "1", B: "two words", C: "$A", EMPTY: "" });
});

async function counting(workspace: string) {
  return await ownVariables(workspace, await readVariables(workspace));
}

Deno.test("all variables of a workspace count until code could write there, then those accepted", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  await Deno.writeTextFile(`${workspace}/.env`, "A=1\nB=2\n");
  assertEquals(await counting(workspace), { A: "1", B: "2" });
  await recordVariables(workspace);
  await Deno.writeTextFile(`${workspace}/.env`, "A=1\nB=3\nC=4\n");
  await recordVariables(workspace); // the next session
  assertEquals(await counting(workspace), { A: "1", B: "3" });
  assertEquals(await acceptVariables(workspace, await readVariables(workspace)), true);
  assertEquals(await counting(workspace), { A: "1", B: "3", C: "4" });
});

Deno.test("in a file that was put in the place of .env, only the same values count", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  await Deno.writeTextFile(`${workspace}/.env`, "A=1\nB=2\n");
  await recordVariables(workspace);
  await Deno.writeTextFile(`${workspace}/new`, "A=1\nB=of code\n");
  await Deno.rename(`${workspace}/new`, `${workspace}/.env`);
  assertEquals(await counting(workspace), { A: "1" });
  await acceptVariables(workspace, await readVariables(workspace));
  await Deno.writeTextFile(`${workspace}/.env`, "A=1\nB=3\n");
  assertEquals(await counting(workspace), { A: "1", B: "3" });
});

Deno.test("in a folder of a workspace in which code ran, only accepted values count", async () => {
  await using outer = await TempFolder.create();
  const inner = `${outer.path}/deep/inner`;
  await Deno.mkdir(inner, { recursive: true });
  await Deno.writeTextFile(`${inner}/.env`, "A=1");
  assertEquals(await counting(inner), { A: "1" });
  await recordVariables(outer.path);
  assertEquals(await counting(inner), {});
  await recordVariables(inner);
  assertEquals(await counting(inner), {});
  await acceptVariables(inner, await readVariables(inner));
  assertEquals(await counting(inner), { A: "1" });
  await Deno.writeTextFile(`${inner}/.env`, "A=of code");
  assertEquals(await counting(inner), {});
});

Deno.test("a damaged record accepts no variable", async () => {
  await using state = await TempFolder.create();
  await using folder = await TempFolder.create();
  await Deno.writeTextFile(`${folder.path}/.env`, "A=1");
  const code = `
const { ownVariables, readVariables, recordVariables } = await load("src/sandbox/own_variables.ts");
const workspace = ${JSON.stringify(folder.path)};
const records = ${JSON.stringify(`${state.path}/ipybox/trust/`)};
const counting = async () => await ownVariables(workspace, await readVariables(workspace));
await recordVariables(workspace);
const before = await counting();
for await (const { name } of Deno.readDir(records)) {
  if (name.endsWith(".json")) await Deno.writeTextFile(records + name, "{");
}
return [before, await counting()];`;
  assertEquals(await inOwnProcess(code, { XDG_STATE_HOME: state.path }), [{ A: "1" }, {}]);
});
