import { unicodeWidth } from "@std/cli";
import type { Prerequisite } from "../sandbox/preflight.ts";
import { type Command, type CommandIo, EXIT, parseCommandLine } from "./command.ts";
import { checkKernel, checkPrerequisites } from "./prerequisites.ts";
import { printable } from "./printable.ts";
import { checkServers } from "./server_needs.ts";
import { workspaceOf } from "./shared.ts";

/** `ipybox doctor`: says what works, what is missing, and the command that fixes it. */
export const doctor: Command = {
  name: "doctor",
  summary: "Say what works, what is missing and how to fix it",
  usage: "[OPTIONS]",
  options: {
    json: { help: "Print the report as JSON" },
    python: { value: "PATH", help: "Check this Python instead of the managed environment" },
    workspace: { value: "DIR", help: "Check what this workspace's servers need (default: .)" },
  },
  notes: [
    "It starts a kernel in the sandbox, and looks for the programs and variables that",
    "the registered servers need, without starting them. With --json, `python` is the",
    "path of the Python that runs kernels.",
    "",
    "Exit codes: 0 when ipybox is ready, 3 when something is missing. Warnings, such",
    "as those about servers, do not count.",
    "",
    "Example:",
    "",
    "  ipybox doctor --json",
  ].join("\n"),
  run,
};

async function run(args: readonly string[], io: CommandIo): Promise<number> {
  const parsed = parseCommandLine(doctor, args);
  const workspace = await workspaceOf(parsed);
  const python = parsed.value("python");
  const machine = await checkPrerequisites({ python });
  const isComplete = machine.every(({ state }) => state !== "missing");
  const prerequisites = [
    ...machine,
    ...(isComplete ? [await checkKernel({ python, signal: io.signal })] : []),
    ...await checkServers(workspace),
  ];
  const ready = prerequisites.every(({ state }) => state !== "missing");
  const path = machine.find(({ name }) => name === "Python")?.path ?? null;
  io.out(
    parsed.has("json")
      ? JSON.stringify({ ready, python: path, prerequisites }, null, 2) + "\n"
      : printable(report(prerequisites)),
  );
  return ready ? EXIT.ok : EXIT.notReady;
}

/** The report for people. */
export function report(prerequisites: readonly Prerequisite[]): string {
  const nameWidth = Math.max(...prerequisites.map(({ name }) => unicodeWidth(name)));
  const versionWidth = Math.max(...prerequisites.map(({ version }) => version?.length ?? 1));
  const indent = " ".repeat("missing  ".length);
  const said = new Set<string | null>();
  const lines = prerequisites.flatMap(({ name, state, version, detail, fix }) => {
    const known = said.has(fix);
    said.add(fix);
    const padding = " ".repeat(nameWidth - unicodeWidth(name));
    const [first = "", ...more] = detail.split("\n");
    return [
      `${state.padEnd(7)}  ${name}${padding}  ${(version ?? "-").padEnd(versionWidth)}  ${first}`,
      ...more.map((line) => indent + line),
      ...(known ? "" : fix ?? "").split("\n").filter((line) => line !== "")
        .map((line, index) => `${indent}${index === 0 ? "fix: " : "     "}${line}`),
    ];
  });
  return [...lines, "", verdict(prerequisites), ""].join("\n");
}

function verdict(prerequisites: readonly Prerequisite[]): string {
  const missing = prerequisites.filter(({ state }) => state === "missing").length;
  if (missing === 0) return "ipybox is ready";
  const things = missing === 1 ? "1 thing is" : `${missing} things are`;
  return `ipybox is not ready: ${things} missing. \`ipybox setup\` installs what it can`;
}
