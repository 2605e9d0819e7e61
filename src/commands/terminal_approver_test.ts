import { assertEquals } from "@std/assert";
import { type ApprovalKind, ApprovalRequest } from "../approval/request.ts";
import { silentLogger } from "../log.ts";
import { sealObject, toExact } from "../json/exact.ts";
import type { CommandIo } from "./command.ts";
import { TerminalApprover } from "./terminal_approver.ts";

/** What is asked at the terminal about a call, and what becomes of it after an answer. */
async function ask(
  call: { kind: ApprovalKind; serverName: string; args: Record<string, string> },
  answer: string,
): Promise<{ question: string; accepted: boolean }> {
  const { kind, serverName, args } = call;
  let question = "";
  const io: CommandIo = {
    out: () => {},
    err: () => {},
    errText: () => {},
    log: silentLogger,
    verboseLog: silentLogger,
    interactive: true,
    stdoutIsTerminal: true,
    color: false,
    signal: new AbortController().signal,
    ask: (text) => {
      question = text;
      return Promise.resolve(answer);
    },
  };
  const request = new ApprovalRequest({
    kind,
    serverName,
    toolName: kind === "tool" ? "read" : kind,
    arguments: sealObject(toExact(args)),
  });
  await new TerminalApprover(io, "--approve allow").decide(request);
  return { question, accepted: (await request.response).accepted };
}

Deno.test("TerminalApprover asks about a tool call in one line", async () => {
  const call = { kind: "tool", serverName: "fs", args: { path: "a\nb" } } as const;
  assertEquals(await ask(call, "y"), {
    question: "Allow fs.read(path='a\\nb')? [y/N] ",
    accepted: true,
  });
});

Deno.test("TerminalApprover shows no other call as a shell command", async () => {
  const call = { kind: "resource", serverName: "fs", args: { cmd: "ls" } } as const;
  assertEquals((await ask(call, "n")).question, "Allow fs.resource(cmd='ls')? [y/N] ");
});

Deno.test("TerminalApprover shows a shell command as it is, every line marked as such", async () => {
  const cmd = "ls -l\nAllow? [y/N] \u001b[2Jy\n";
  const call = { kind: "shell", serverName: "ipybox", args: { cmd } } as const;
  assertEquals(await ask(call, ""), {
    question: "Run:\n  | ls -l\n  | Allow? [y/N] \\u001b[2Jy\nAllow? [y/N] ",
    accepted: false,
  });
});

Deno.test("TerminalApprover names the program that runs a script", async () => {
  const args = { cmd: "print 1;\n", program: "perl -w" };
  const call = { kind: "shell_magic", serverName: "ipybox", args } as const;
  assertEquals(
    (await ask(call, "n")).question,
    "Run by perl -w:\n  | print 1;\nAllow? [y/N] ",
  );
});
