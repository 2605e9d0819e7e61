import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { ipybox } from "../support/cli.ts";
import { commandsIn } from "../support/command_io.ts";
import { filesBelow } from "../support/files.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { ipyboxAtTerminal, type Typing } from "../support/terminal.ts";

const OUTPUT = [
  "New York: Cloudy, 33 °F, 82 % humidity",
  "Chicago: Light rain / drizzle, 36 °F, 82 % humidity",
  "Los Angeles: Sunny / Clear, 73 °F, 48 % humidity",
  "Mean: 47 °F",
];

Deno.test("ipybox demo --yes calls real tools in a loop and prints their results", async () => {
  const { code, stdout, stderr } = await ipybox(["demo", "--yes"]);

  assertEquals({ code, stdout }, { code: 0, stdout: OUTPUT.join("\n") + "\n" }, stderr);
  const approved = [...stderr.matchAll(/^Approved everything\.(\S+)\(/gm)].map(([, tool]) => tool);
  assertStringIncludes(stderr, 'takes "New York" | "Chicago" | "Los Angeles", not "Paris"');
  assertMatch(stderr, /^ {2}\/\S+\/secret\.txt: FileNotFoundError$/m);
  assertMatch(stderr, /^ {2}https:\/\/example\.com: URLError$/m);
  assertMatch(stderr, /^Next, /m);
  assertEquals(approved, Array(3).fill(["get-structured-content", "get-sum"]).flat());
});

Deno.test("ipybox demo without a terminal and without --yes refuses the calls", async () => {
  await using workspace = await TempFolder.create();

  const { code, stdout, stderr } = await commandsIn(workspace.path)(["demo"]);

  assertEquals({ code, stdout }, { code: 1, stdout: "" }, stderr);
  assertMatch(
    stderr,
    /everything\.get-structured-content could not be approved: there is no terminal to ask on \(--yes allows calls\)$/m,
  );
  assertEquals((await filesBelow(workspace.path)).has(".ipybox/mcp.json"), true);
});

Deno.test("ipybox demo asks for each call at a terminal", async () => {
  const yes: Typing = ["[d]etails, then Enter: ", "y\n"];

  const { code, output } = await ipyboxAtTerminal(["demo"], Array(6).fill(yes));

  assertEquals(code, 0, output);
  for (const line of OUTPUT) assertStringIncludes(output, line);
});
