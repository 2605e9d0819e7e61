import { assertEquals, assertMatch } from "@std/assert";
import { failureHint, missingModule, missingServer } from "./traceback.ts";

const raised = (ename: string, evalue: string) => ({ ename, evalue, traceback: "" });

Deno.test("A server that is missing is named", () => {
  for (
    const [evalue, says] of [
      ["No module named 'mcptools.github'", '[ipybox] No Python API of a server "github" here'],
      ["No module named 'mcptools'", "[ipybox] No MCP server is registered here"],
      ["No module named 'mcptools.github.tool'", undefined], // the server is there
      ["No module named 'mcptools.gh'. Did you mean: 'mcptools.github'?", undefined],
      ["No module named 'pandas'", undefined],
    ] as const
  ) {
    assertEquals(missingServer({ ename: "ModuleNotFoundError", evalue }), says);
  }
});

Deno.test("A module that is missing is named where packages may have it", () => {
  for (
    const [evalue, name] of [
      ["No module named 'pandas'", "pandas"],
      ["No module named 'a.b'; 'a' is not a package", "a"],
      ["No module named 'mcptools.github'", undefined],
      ["No module named 'gentools.x'", undefined],
      ["No module named '; rm -rf'", undefined],
    ] as const
  ) {
    assertEquals(missingModule({ ename: "ModuleNotFoundError", evalue }), name);
  }
  assertEquals(missingModule({ ename: "ImportError", evalue: "No module named 'a'" }), undefined);
});

Deno.test("A host that cannot be reached is the sandbox's doing only where there is one", () => {
  for (
    const evalue of [
      "<urlopen error [Errno -3] Temporary failure in name resolution>",
      "[Errno -2] Name or service not known",
      "[Errno 101] Network is unreachable",
      "Tunnel connection failed: 403 Forbidden",
    ]
  ) {
    const error = raised("URLError", evalue);
    assertMatch(failureHint(error, { sandboxed: true }) ?? "", /^\[ipybox\] No network: /);
    assertEquals(failureHint(error, { sandboxed: false }), undefined);
  }
  assertEquals(failureHint(raised("OSError", "[Errno 2]"), { sandboxed: true }), undefined);
});
