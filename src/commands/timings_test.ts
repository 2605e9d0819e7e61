import { assertEquals } from "@std/assert";
import { during, listenToStages, stage } from "../base/stages.ts";
import { withoutTrace } from "./timings.ts";

Deno.test("Stages are reported as they end, while somebody listens", async () => {
  const stages: string[] = [];
  {
    using _listener = listenToStages(({ name, from, to }) => stages.push(`${name} ${to >= from}`));
    using _outer = stage("outer");
    assertEquals(await during("inner", Promise.resolve(7)), 7);
    await during("failed", Promise.reject(new Error())).catch(() => {});
  }
  using _unheard = stage("unheard");
  assertEquals(stages, ["inner true", "failed true", "outer true"]);
});

Deno.test("--trace-startup counts before --", () => {
  const args = ["run", "--trace-startup", "x.py", "--", "--trace-startup"];
  assertEquals(withoutTrace(args), ["run", "x.py", "--", "--trace-startup"]);
  assertEquals(withoutTrace(["--trace-startup", "run"]), ["run"]);
});
