import { assertEquals } from "@std/assert";
import { inOwnProcess } from "../../tests/support/own_process.ts";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { stateOf } from "../../tests/support/workspace_state.ts";
import { abandonedIn } from "./workspace_folders.ts";
import { adoptState, makeWorkspaceState, statesFolder, workspaceState } from "./workspace_state.ts";

async function namesIn(folder: string): Promise<string[]> {
  return (await Array.fromAsync(Deno.readDir(folder), ({ name }) => name)).sort();
}

Deno.test("the state of a workspace is made when it is written, and found by any of its paths", async () => {
  await using folder = await TempFolder.create();
  assertEquals(await workspaceState(folder.path), undefined);
  const made = await makeWorkspaceState(folder.path);
  await Deno.symlink(folder.path, `${folder.path}/link`);
  assertEquals(await workspaceState(`${folder.path}/link`), made);
  assertEquals(((await Deno.stat(made ?? "")).mode ?? 0) & 0o777, 0o700);
  assertEquals(await namesIn(folder.path), ["link"]);
});

Deno.test("a moved workspace gets its state back, and never that of another", async () => {
  await using folder = await TempFolder.create();
  const [old, moved, other] = ["old", "moved", "other"].map((name) => `${folder.path}/${name}`);
  for (const path of [old, other]) await Deno.mkdir(path!);
  await Deno.writeTextFile(`${await stateOf(old!)}/audit.jsonl`, "line\n");
  await stateOf(other!);
  await Deno.rename(old!, moved!);
  assertEquals(await adoptState(other!, old!), "occupied");
  assertEquals(await adoptState(moved!, old!), "adopted");
  assertEquals(await Deno.readTextFile(`${await stateOf(moved!)}/audit.jsonl`), "line\n");
  assertEquals(await adoptState(moved!, old!), "missing");

  await Deno.remove(moved!, { recursive: true });
  const gone = (await abandonedIn(statesFolder())).filter(({ workspace }) => workspace === moved);
  assertEquals(gone.length, 1);
});

Deno.test("another folder at the path of a workspace has the log, and none of the decisions", async () => {
  await using folder = await TempFolder.create();
  const workspace = `${folder.path}/workspace`;
  await Deno.mkdir(workspace);
  const state = await stateOf(workspace);
  for (const name of ["audit.jsonl", "consents.json"]) {
    await Deno.writeTextFile(`${state}/${name}`, "");
  }
  assertEquals(await stateOf(workspace), state);
  await Deno.lstat(`${state}/consents.json`);
  await Deno.rename(workspace, `${folder.path}/former`);
  await Deno.mkdir(workspace); // as by another clone
  assertEquals(await stateOf(workspace), state);
  assertEquals(await namesIn(state), [
    "audit.jsonl",
    "former-consents.json",
    "identity",
    "workspace",
  ]);
});

Deno.test("without a state folder of the user's, there is no state", async () => {
  await using folder = await TempFolder.create();
  const code = `
    const { makeWorkspaceState } = await load("src/files/workspace_state.ts");
    return await makeWorkspaceState(${JSON.stringify(folder.path)}) ?? "none";`;
  assertEquals(await inOwnProcess(code, { XDG_STATE_HOME: "", HOME: "" }), "none");
  assertEquals(await inOwnProcess(code, { XDG_STATE_HOME: "/sys" }), "none");
});
