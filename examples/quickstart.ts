// deno-lint-ignore-file no-console -- a script talks to whoever started it
/**
 * A code action that calls two tools of a real MCP server in a loop, each call after its approval.
 *
 * Run it with `deno run -A examples/quickstart.ts [WORKSPACE]`, or with the permissions that
 * docs/typescript.md lists. The workspace is a folder that exists; by default the current one.
 *
 * @module
 */
import { CodeExecutor } from "@ipybox/ipybox";

const ACTION = `
from mcptools.everything import get_structured_content, get_sum

total = 0
cities = ["New York", "Chicago", "Los Angeles"]
for city in cities:
    weather = get_structured_content.run(location=city)
    answer = get_sum.run(a=total, b=weather.temperature)
    total = float(answer.split()[-1].rstrip("."))

print(f"Mean: {total / len(cities):.0f} °F")
`;

await using executor = await CodeExecutor.start({ workspace: Deno.args[0] ?? "." });
await executor.registerServer("everything", {
  command: "npx",
  args: ["-y", "@modelcontextprotocol/server-everything@2026.8.31", "stdio"],
});
for await (const event of executor.stream(ACTION, { timeoutMs: 60_000 })) {
  switch (event.type) {
    case "approval":
      console.error(`Approved ${event.request}`);
      await event.request.accept();
      break;
    case "result":
      console.log(event.result.text);
      break;
    case "chunk": // only with `events: ["chunk"]`
      break;
  }
}
