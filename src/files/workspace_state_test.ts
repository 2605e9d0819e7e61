import { assertEquals } from "@std/assert";
import { inOwnProcess } from "../../tests/support/own_process.ts";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { stateOf } from "../../tests/support/workspace_state.ts";
import { OwnEntries } from "./own_entries.ts";
import {
  abandonedStates,
  adoptState,
  makeWorkspaceState,
  workspaceState,
} from "./workspace_state.ts";

/** Writes files as earlier versions did. */
async function formerly(workspace: string, files: Readonly<Record<string, string>>): Promise<void> {
  await Deno.mkdir(`${workspace}/.ipybox`, { recursive: true });
  for (const [name, text] of Object.entries(files)) {
    await Deno.writeTextFile(`${workspace}/.ipybox/${name}`, text);
  }
}

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

Deno.test("of what earlier versions kept in a workspace, only the user's decisions are taken over, and once", async () => {
  await using folder = await TempFolder.create();
  const [mine, others] = [{ id: "mine", tool: "a" }, { id: "others", tool: "b" }];
  await (await OwnEntries.open(folder.path, "consents")).set("mine", mine);
  await formerly(folder.path, {
    "audit.jsonl": "planted\n",
    "shapes.json": "{}",
    "mcp.json": "{}",
    "consents.json": JSON.stringify({ version: 1, consents: [mine, others] }),
  });
  const state = await workspaceState(folder.path) ?? "";
  assertEquals(await namesIn(`${folder.path}/.ipybox`), [
    "audit.jsonl",
    "mcp.json",
    "shapes.json",
  ]);
  assertEquals(await namesIn(state), ["consents.json", "identity", "workspace"]);
  const { consents } = JSON.parse(await Deno.readTextFile(`${state}/consents.json`));
  assertEquals(consents, [mine]);

  await formerly(folder.path, {
    "consents.json": JSON.stringify({ version: 1, consents: [] }),
  });
  assertEquals(await workspaceState(folder.path), state);
  assertEquals(JSON.parse(await Deno.readTextFile(`${state}/consents.json`)).consents, [mine]);
});

Deno.test("links in the place of decisions, or of their folder, are not taken over", async () => {
  await using folder = await TempFolder.create();
  const mine = { id: "mine", tool: "a" };
  const text = JSON.stringify({ version: 1, consents: [mine] });
  await formerly(`${folder.path}/elsewhere`, { "consents.json": text });
  await Deno.mkdir(`${folder.path}/one/.ipybox`, { recursive: true });
  await Deno.symlink(
    `${folder.path}/elsewhere/.ipybox/consents.json`,
    `${folder.path}/one/.ipybox/consents.json`,
  );
  await Deno.mkdir(`${folder.path}/other`);
  await Deno.symlink(`${folder.path}/elsewhere/.ipybox`, `${folder.path}/other/.ipybox`);
  for (const name of ["one", "other"]) {
    await (await OwnEntries.open(`${folder.path}/${name}`, "consents")).set("mine", mine);
    assertEquals(await workspaceState(`${folder.path}/${name}`), undefined);
  }
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
  const gone = (await abandonedStates()).filter(({ workspace }) => workspace === moved);
  assertEquals(gone.length, 1);
});

Deno.test("files of a repository that are no decisions stay, and prevent nothing", async () => {
  for (const consents of ["{", "[]", '{"consents": [null, {}]}', " ".repeat(5 * 2 ** 20)]) {
    await using folder = await TempFolder.create();
    await formerly(folder.path, { "consents.json": consents });
    assertEquals(await workspaceState(folder.path), undefined);
    assertEquals(await namesIn(`${folder.path}/.ipybox`), ["consents.json"]);
  }
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
