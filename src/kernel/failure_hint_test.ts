import { assertEquals } from "@std/assert";
import { missingModule, missingServer } from "./traceback.ts";

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
