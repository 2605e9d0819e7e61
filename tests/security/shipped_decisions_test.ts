/** A repository that brings decisions which nobody took on this machine. */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { ApprovalRequest } from "../../src/approval/request.ts";
import { ToolCallError } from "../../src/errors.ts";
import type { Logger } from "../../src/log.ts";
import { silentLogger } from "../../src/log.ts";
import { loadPolicy } from "../../src/policy/policy_file.ts";
import { ToolRunner } from "../../src/tool_server/tool_runner.ts";
import { ipybox } from "../support/cli.ts";
import { rawServer } from "../support/mcp.ts";
import { TempFolder } from "../support/temp_folder.ts";

/** What calls of the tools `echo` and `count` come to in a workspace, and which of them are asked about. */
async function outcomes(
  workspace: string,
  answer: (request: ApprovalRequest) => unknown = (request) => request.reject(),
): Promise<{ readonly ends: readonly string[]; readonly asked: readonly string[] }> {
  await using runner = await ToolRunner.start({
    workspace,
    servers: { raw: rawServer() },
    approval: await loadPolicy({ workspace, log: silentLogger }),
    audit: false,
    log: silentLogger,
  });
  const asked: string[] = [];
  runner.channel.attach((request) => {
    asked.push(request.toolName);
    answer(request);
  });
  const ends: string[] = [];
  for (const tool of ["echo", "count"]) {
    try {
      await runner.run("raw", tool);
      ends.push("ran");
    } catch (error) {
      if (!(error instanceof ToolCallError)) throw error;
      ends.push(error.type);
    }
  }
  return { ends, asked };
}

async function clone(name: string, text: string): Promise<TempFolder> {
  const folder = await TempFolder.create();
  await Deno.mkdir(`${folder.path}/.ipybox`);
  await Deno.writeTextFile(`${folder.path}/.ipybox/${name}`, text);
  return folder;
}

const SHIPPED = JSON.stringify({
  trustedServers: ["raw"],
  rules: [{ effect: "allow" }, { effect: "deny", tool: "count" }],
  tests: [{ call: { server: "raw", tool: "echo" }, expect: "allow" }],
});

Deno.test("A policy that came with a repository allows nothing until it is accepted as it is", async () => {
  await using workspace = await clone("policy.json", SHIPPED);
  const { path } = workspace;
  const options = { cwd: path };
  const file = `${path}/.ipybox/policy.json`;
  const refused = { ends: ["approval_rejected", "approval_rejected"], asked: ["echo"] };
  assertEquals(await outcomes(path), refused);

  const warned: string[] = [];
  const log: Logger = { ...silentLogger, warn: (text) => void warned.push(text) };
  await loadPolicy({ workspace: path, log });
  assertEquals(warned.length, 1);
  assertStringIncludes(warned[0] ?? "", file);
  assertStringIncludes(warned[0] ?? "", "`ipybox policy accept`");

  for (const action of [["check"], ["test"], ["explain", "raw.echo"]]) {
    const { code, stderr } = await ipybox(["policy", ...action], options);
    assertEquals(code, 0, stderr);
    assertStringIncludes(stderr, "You have not accepted the policy");
  }
  assertMatch((await ipybox(["policy", "explain", "raw.echo"], options)).stdout, /^ask: /);

  const unasked = await ipybox(["policy", "accept"], options);
  assertEquals(unasked.code, 2);
  assertStringIncludes(unasked.stderr, SHIPPED);
  assertStringIncludes(unasked.stderr, "--yes");
  assertEquals(await outcomes(path), refused);

  const accepted = await ipybox(["policy", "accept", "--yes"], options);
  assertEquals(accepted.code, 0, accepted.stderr);
  assertEquals(await outcomes(path), { ends: ["ran", "approval_rejected"], asked: [] });
  assertEquals((await ipybox(["policy", "check"], options)).stderr.includes("accepted"), false);

  await Deno.writeTextFile(file, SHIPPED + " ");
  assertEquals(await outcomes(path), refused);

  await using other = await clone("policy.json", SHIPPED);
  assertEquals(await outcomes(other.path), refused);
});

Deno.test("Decisions that came with a repository allow nothing, and still deny", async () => {
  await using mine = await TempFolder.create();
  const remember = { scope: "always", match: "tool" } as const;
  const decide = (request: ApprovalRequest) =>
    request.toolName === "echo"
      ? request.accept({ remember })
      : request.reject("not this", { remember });
  await outcomes(mine.path, decide);
  assertEquals(await outcomes(mine.path), { ends: ["ran", "approval_rejected"], asked: [] });

  const text = await Deno.readTextFile(`${mine.path}/.ipybox/consents.json`);
  await using cloned = await clone("consents.json", text);
  const refused = { ends: ["approval_rejected", "approval_rejected"], asked: ["echo"] };
  assertEquals(await outcomes(cloned.path), refused);
  const explained = await ipybox(["policy", "explain", "raw.echo"], { cwd: cloned.path });
  assertMatch(explained.stdout, /^ask: [^]*allow, lapsed: it was not decided on this machine/);
});
