import { assertEquals } from "@std/assert";
import { during, listenToStages, type Stage, stage } from "../base/stages.ts";
import { stageRows, withoutTrace } from "./timings.ts";

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

Deno.test("stageRows() puts parts below what they are parts of, within 40 columns", () => {
  const stages: Stage[] = [
    { name: "part", from: 110, to: 130.4 },
    { name: "whole", from: 100, to: 150 },
    { name: "next", from: 150, to: 1150 },
  ];
  assertEquals(stageRows(stages), [
    "  from   took  (milliseconds)",
    "     0     50  whole",
    "    10     20    part",
    "    50   1000  next",
    "",
  ]);
  assertEquals(stageRows([]), []);
});

Deno.test("--trace-startup counts before --", () => {
  const args = ["run", "--trace-startup", "x.py", "--", "--trace-startup"];
  assertEquals(withoutTrace(args), ["run", "x.py", "--", "--trace-startup"]);
  assertEquals(withoutTrace(["--trace-startup", "run"]), ["run"]);
});
