/** Paths that a server may read otherwise than the rule that is to allow them. */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { approvalCall, PolicyRules } from "../../src/approval/rules/rules.ts";
import { loadPolicy } from "../../src/approval/rules/file.ts";
import { parsePolicy } from "../../src/approval/rules/parse.ts";
import type { PolicyValue } from "../../src/approval/rules/schema.ts";
import { ToolCallError } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import { ToolRunner } from "../../src/calls/runner.ts";
import { swapFolder } from "../support/attacker.ts";
import { ipybox } from "../support/cli.ts";
import { npmServer } from "../support/mcp.ts";
import { writeAcceptedPolicy } from "../support/policy.ts";
import { cpuMs } from "../support/stalls.ts";
import { TempFolder } from "../support/temp_folder.ts";

/** A rule for a folder that code can write to: "Arguments" in docs/policy.md. */
const ALLOW = {
  effect: "allow",
  server: "files",
  tool: ["read_*", "list_*"],
  arguments: { "/path": { path: "." } },
};

Deno.test("paths of many marks hold nobody up", () => {
  const rule = { effect: "allow", arguments: { "/paths": { each: { path: "/tmp" } } } };
  const policy = new PolicyRules([parsePolicy("policy.json", JSON.stringify({ rules: [rule] }))]);
  const judge = (...paths: string[]) =>
    policy.decide(approvalCall({ kind: "tool", arguments: { paths } })).mode;
  const path = `/tmp/${"\u0301\u0323".repeat(2000)}`; // in the wrong order, each with its neighbor
  const start = cpuMs();

  assertEquals(judge(...Array.from({ length: 900 }, () => path)), "ask");

  assert(cpuMs() - start < 1000, `${cpuMs() - start} ms`);
  assertEquals(judge("/tmp/नमस्ते", "/tmp/ใช้ที่นี่"), "allow"); // scripts have some marks in a row
});

async function writePolicy(workspace: string, rules: readonly unknown[]): Promise<PolicyRules> {
  await writeAcceptedPolicy(workspace, JSON.stringify({ rules }));
  const policy = await loadPolicy({ workspace });
  if (policy === undefined) throw new Error("There is no policy");
  return policy;
}

Deno.test("A relative path is asked about, as a server may start it in a folder of its own", async () => {
  await using parent = await TempFolder.create();
  const workspace = `${parent.path}/ws`;
  await Deno.mkdir(workspace);
  await Deno.writeTextFile(`${parent.path}/secret`, "TOPSECRET");
  await Deno.writeTextFile(`${workspace}/notes`, "harmless");
  const approval = await writePolicy(workspace, [ALLOW]);
  const server = npmServer("server-filesystem", parent.path, workspace);
  for (const cwd of [undefined, parent.path]) {
    await using runner = await ToolRunner.start({
      workspace,
      servers: { files: { ...server, cwd } },
      approval,
      audit: false,
      log: silentLogger,
    });
    const read = (path: string) => runner.run("files", "read_text_file", { path });

    const { type } = await assertRejects(() => read("secret"), ToolCallError);

    assertEquals(type, "approval_unavailable");
    assertMatch(JSON.stringify(await read(`${workspace}/notes`)), /harmless/);
  }
  const explained = await ipybox([
    ...["policy", "explain", "files.read_text_file", '{"path":"secret"}'],
    ...["--workspace", workspace],
  ]);
  assertMatch(explained.stdout, /^ask: .* may match, but this is uncertain/);
});

Deno.test("A path that the tool does not take allows nothing", async () => {
  await using parent = await TempFolder.create();
  const workspace = `${parent.path}/ws`;
  await Deno.mkdir(workspace);
  await Deno.writeTextFile(`${parent.path}/secret`, "TOPSECRET");
  await Deno.writeTextFile(`${workspace}/notes`, "harmless");
  await using runner = await ToolRunner.start({
    workspace,
    servers: { files: npmServer("server-filesystem", parent.path) },
    approval: await writePolicy(workspace, [ALLOW]),
    audit: false,
    log: silentLogger,
  });
  const read = (args: Readonly<Record<string, unknown>>) =>
    runner.run("files", "read_multiple_files", args);

  const { type } = await assertRejects(
    () => read({ path: `${workspace}/notes`, paths: [`${parent.path}/secret`] }),
    ToolCallError,
  );

  assertEquals(type, "approval_unavailable");
});

Deno.test("A path that programs read differently neither is allowed nor slips past a rule", async () => {
  await using folder = await TempFolder.create();
  const ws = folder.path;
  await Deno.writeTextFile(`${ws}/a.txt`, "x");
  const allowed = await writePolicy(ws, [ALLOW]);
  const denied = await writePolicy(ws, [
    { effect: "allow" },
    { effect: "deny", arguments: { "/path": { path: ["~", "/etc"] } } },
  ]);
  const mode = (policy: PolicyRules, path: PolicyValue) =>
    policy.decide(approvalCall({
      kind: "tool",
      server: "files",
      tool: "read_file",
      arguments: { path },
    })).mode;

  for (
    const path of [`${ws}/a.txt`, ws, `${ws}/`, `${ws}/new file (1).txt`, `${ws}/größe/日本.md`]
  ) {
    assertEquals(mode(allowed, path), "allow", path);
    assertEquals(mode(denied, path), "allow", path);
  }
  for (const path of ["/etc/passwd", "/etc/../etc/passwd", "//etc/passwd"]) {
    assertEquals(mode(allowed, path), "ask", path);
  }
  assertEquals(mode(denied, "/etc/passwd"), "deny");
  await Deno.symlink(`${ws}/.ipybox`, `${ws}/link`);
  for (const name of [".ipybox/mcp.json", ".env", "x/.ENV.local", ".ipybox", "link/mcp.json"]) {
    assertEquals(mode(allowed, `${ws}/${name}`), "ask", name);
  }
  assertEquals(mode(allowed, `${ws}/.env.example`), "allow");
  for (
    const path of [
      ...["", " ", ".", "..", "a.txt", "./a.txt", "../x", "a/../../x", "-rf", "*", "@a"],
      ...["~", "~/x", "~root/x", "$HOME/x", "${HOME}/x", "%7e/x", "%2e%2e/x"],
      ...[" /etc/passwd", "\n/etc/passwd", "\t../x", "\u00a0/etc/passwd", "\ufeff/etc/passwd"],
      ...["{a,/etc/passwd}", "'/etc/passwd'", '"/etc/passwd"', "`/etc/passwd`"],
      ...["C:\\x", "\\\\host\\x", "FILE:a", `file://${ws}/a.txt`, "file:///etc/passwd"],
      ...[`${ws}/../x`, `${ws}/..%2fx`, `${ws}/a.txt `, `${ws}/a.txt\n`, `${ws}/a\u0000/x`],
      ...[`${ws}/$x`, `${ws}/{a,b}`, `${ws}/l*k/x`, `${ws}/l?k/x`, `${ws}/l[i]k/x`, `${ws}/~/x`],
      ...[`${ws}/a:/etc/passwd`, `${ws}/a,/etc/passwd`, `${ws}/a;x`, `${ws}/a|x`, `${ws}/a#b`],
      ...[`${ws}/\uff0e\uff0e/x`, `${ws}/\u2024\u2024/x`, `${ws}/ﬁle`, `${ws}/a\\..\\x`],
      ...[`/${ws}/a.txt`, "/ETC/passwd", "https://x/y", ["/etc/passwd"], { path: "/etc" }, 1],
    ]
  ) {
    assertEquals(mode(allowed, path), "ask", JSON.stringify(path));
    assertEquals(mode(denied, path), "ask", JSON.stringify(path));
  }
});

Deno.test("A test for another kind of value than the call's neither allows nor lets pass", async () => {
  await using folder = await TempFolder.create();
  for (
    const [condition, value] of [
      [{ glob: "*secret*" }, ["secret"]],
      [{ glob: "*secret*" }, { name: "secret" }],
      [{ prefix: "rm" }, ["rm", "-r"]],
      [{ min: 100 }, "1000"],
      [{ max: 0 }, ["-1"]],
      [{ some: { glob: "*secret*" } }, "secret"],
    ] as const
  ) {
    const call = approvalCall({ kind: "tool", server: "x", tool: "y", arguments: { a: value } });
    const said = JSON.stringify([condition, value]);
    const not = await writePolicy(folder.path, [
      { effect: "allow", arguments: { "/a": { not: condition } } },
    ]);
    assertEquals(not.decide(call).mode, "ask", said);
    const denied = await writePolicy(folder.path, [
      { effect: "allow" },
      { effect: "deny", arguments: { "/a": condition } },
    ]);
    assertEquals(denied.decide(call).mode, "ask", said);
  }
  const climbing = await writePolicy(folder.path, [
    { effect: "allow", arguments: { "/a": { prefix: "/ok/" } } },
  ]);
  const look = { a: "/ok/\uff0e\uff0e/etc/x" };
  const call = approvalCall({ kind: "tool", server: "x", tool: "y", arguments: look });
  assertEquals(climbing.decide(call).mode, "ask");
});

Deno.test("A path by way of what leads each process elsewhere is asked about", async () => {
  await using parent = await TempFolder.create();
  const [real, link, workspace] = [
    `${parent.path}/real`,
    `${parent.path}/link`,
    `${parent.path}/ws`,
  ];
  await Deno.mkdir(real);
  await Deno.mkdir(workspace);
  await Deno.symlink(real, link);
  await Deno.symlink("/proc/self/cwd", `${real}/cwd`);
  await Deno.symlink("cwd", `${real}/again`);
  await Deno.symlink("/dev/stdin", `${real}/stdin`);
  const policy = await writePolicy(workspace, [
    { effect: "allow", arguments: { "/path": { path: link } } },
    { effect: "allow", arguments: { "/path": { path: Deno.cwd() } } },
  ]);
  const mode = (path: string) =>
    policy.decide(
      approvalCall({ kind: "tool", server: "files", tool: "read_file", arguments: { path } }),
    ).mode;

  for (const path of [`${link}/a`, `${real}/a`, `${Deno.cwd()}/a`]) {
    assertEquals(mode(path), "allow", path);
  }
  await Deno.symlink(real, `${parent.path}/other`);
  for (
    const path of [
      ...["/proc/self/cwd/secret", "/proc/1/root/etc", "/dev/fd/3", "/dev/stdin"],
      ...[`${link}/cwd/secret`, `${real}/again/secret`, `${link}/stdin`],
      `${parent.path}/other/a`,
    ]
  ) {
    assertEquals(mode(path), "ask", path);
  }
});

Deno.test("A rule's folder does not move with a link that code puts in its place", async () => {
  await using parent = await TempFolder.create();
  const [ws, other, victim] = [
    `${parent.path}/ws`,
    `${parent.path}/other`,
    `${parent.path}/victim`,
  ];
  for (const folder of [`${ws}/data`, `${ws}/later`, `${other}/.ipybox`, victim]) {
    await Deno.mkdir(folder, { recursive: true });
  }
  await Deno.symlink(victim, `${ws}/planted`); // by an earlier session
  await Deno.symlink(victim, `${other}/planted`); // by one in another workspace
  await Deno.symlink(`${ws}/later`, `${parent.path}/mine`); // by the person
  const folders = ["data", `${ws}/later`, "new", "planted", `${other}/planted`, "../mine"];
  const rule = (effect: string, condition: unknown) => ({
    effect,
    arguments: { "/path": condition },
  });
  const allowed = await writePolicy(ws, [rule("allow", { path: folders })]);
  const exempt = await writePolicy(ws, [
    { effect: "allow" },
    rule("deny", { not: { path: folders } }),
  ]);
  const mode = (policy: PolicyRules, path: string) =>
    policy.decide(
      approvalCall({ kind: "tool", server: "files", tool: "write_file", arguments: { path } }),
    ).mode;
  assertEquals(mode(exempt, `${victim}/x`), "ask", "as some of the folders lead there");
  assertEquals(mode(exempt, "/etc/x"), "deny");
  for (const name of ["data", "later", "new"]) {
    assertEquals(mode(allowed, `${ws}/${name}/x`), "allow", name);
  }
  assertEquals(mode(allowed, `${parent.path}/mine/x`), "allow");
  await Deno.remove(`${parent.path}/mine`);
  await Deno.symlink(victim, `${parent.path}/mine`);
  await Deno.rename(`${ws}/data`, `${ws}/data_`);
  await Deno.symlink(victim, `${ws}/data`);
  await Deno.rename(`${ws}/later`, `${ws}/later_`);
  await Deno.symlink("later_", `${ws}/later`);
  await Deno.symlink("/", `${ws}/new`);

  for (const path of [`${victim}/x`, `${ws}/data/x`, `${ws}/planted/x`, `${ws}/later/x`, "/x"]) {
    assertEquals(mode(allowed, path), "ask", path);
    assertEquals(mode(exempt, path), "ask", path);
  }
});

Deno.test("A rule's folder that code swaps for a link all the time allows nothing elsewhere", async () => {
  await using parent = await TempFolder.create();
  const [ws, victim] = [`${parent.path}/ws`, `${parent.path}/victim`];
  await Deno.mkdir(`${ws}/data`, { recursive: true });
  await Deno.mkdir(victim);
  await using _swapper = await swapFolder(`${ws}/data`, victim);
  const modes = new Set<string>();
  for (let round = 0; round < 50; round++) {
    const policy = await writePolicy(ws, [
      { effect: "allow", arguments: { "/path": { path: "data" } } },
    ]);
    for (let call = 0; call < 100; call++) {
      const path = `${victim}/x`;
      const decided = policy.decide(
        approvalCall({ kind: "tool", server: "files", tool: "write_file", arguments: { path } }),
      );
      modes.add(decided.mode);
    }
  }
  assertEquals([...modes], ["ask"]);
});

Deno.test("A path by way of thousands of folders is not followed to its end", async () => {
  await using folder = await TempFolder.create();
  const deep = `${folder.path}${"/d".repeat(1500)}`;
  await Deno.mkdir(deep, { recursive: true });
  for (let i = 0; i < 30; i++) await Deno.symlink(`${deep}/l${i + 1}`, `${deep}/l${i}`);
  await Deno.symlink("/etc", `${deep}/l30`);
  await Deno.symlink(`${deep}/l0`, `${folder.path}/link`);
  const policy = await writePolicy(folder.path, [
    { effect: "allow" },
    { effect: "deny", arguments: { "/path": { path: "/etc" } } },
  ]);
  const looks: string[] = [];
  using counted = new DisposableStack();
  for (const name of ["lstatSync", "readLinkSync", "realPathSync"] as const) {
    const original = Deno[name];
    counted.defer(() => void Object.assign(Deno, { [name]: original }));
    Object.assign(Deno, { [name]: (path: string) => (looks.push(name), original(path)) });
  }

  const verdict = policy.decide(approvalCall({
    kind: "tool",
    server: "files",
    tool: "read_file",
    arguments: { path: `${folder.path}/link` },
  }));

  assertEquals([verdict.mode, verdict.mayBeDenied], ["ask", true]);
  assert(looks.length < 2000, `${looks.length} lookups`);
  assert(!looks.includes("realPathSync")); // it would follow the path to its end
});

Deno.test("A path of a million parts is not even cleaned", async () => {
  await using folder = await TempFolder.create();
  const policy = await writePolicy(folder.path, [ALLOW]);
  const path = `/${"a/".repeat(400_000)}${"b/../".repeat(400_000)}`; // which takes minutes
  const { mode } = policy.decide(approvalCall({
    kind: "tool",
    server: "files",
    tool: "read_file",
    arguments: { path },
  }));
  assertEquals(mode, "ask");
});

const granted = await Deno.makeTempDir();
globalThis.addEventListener("unload", () => Deno.removeSync(granted, { recursive: true }));

Deno.test({
  name: "A path is judged where Deno may read the workspace alone",
  permissions: { read: [granted] },
  fn: () => {
    const rules = [{ effect: "allow", arguments: { "/path": { path: "." } } }];
    const policy = new PolicyRules([parsePolicy("policy.json", JSON.stringify({ rules }))], {
      workspace: granted,
    });
    const mode = (path: string) =>
      policy.decide(approvalCall({ kind: "tool", server: "files", tool: "x", arguments: { path } }))
        .mode;
    assertEquals(mode(`${granted}/new/file`), "allow");
    assertEquals(mode(granted), "allow");
    assertEquals(mode("/etc/passwd"), "ask");
  },
});
