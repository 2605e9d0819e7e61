import { assertEquals } from "@std/assert";
import { missingServer } from "./traceback.ts";

Deno.test("A server that is missing is named", () => {
  for (
    const [evalue, says] of [
      ["No module named 'mcptools.github'", '[ipybox] No Python API of a server "github" here'],
      [
        "No module named 'mcptools.github'. Registered servers: none",
        '[ipybox] No Python API of a server "github" here',
      ],
      ["No module named 'mcptools'", "[ipybox] No MCP server is registered here"],
      ["No module named 'mcptools.github.tool'", undefined], // the server is there
      ["No module named 'mcptools.gh'. Did you mean: 'mcptools.github'?", undefined],
      ["No module named 'pandas'", undefined],
    ] as const
  ) {
    assertEquals(missingServer({ ename: "ModuleNotFoundError", evalue }), says);
  }
});
