import { assertEquals } from "@std/assert";
import { report } from "./doctor.ts";

Deno.test("report() gives a line to each prerequisite, a fix to what is missing, and a verdict", () => {
  const text = report([
    { name: "Deno", state: "ok", version: "2.9.6", detail: "/usr/bin/deno", fix: null },
    {
      name: "Python",
      state: "missing",
      version: null,
      detail: "lacks:\n  pydantic: gone",
      fix: "do this\nor that",
    },
    { name: "ipykernel", state: "missing", version: null, detail: "gone", fix: "do this\nor that" },
    { name: "ordinary user", state: "warn", version: null, detail: "runs as root", fix: "do not" },
  ]);

  assertEquals(
    text,
    `\
ok       Deno           2.9.6  /usr/bin/deno
missing  Python         -      lacks:
           pydantic: gone
         fix: do this
              or that
missing  ipykernel      -      gone
warn     ordinary user  -      runs as root
         fix: do not

ipybox is not ready: 2 things are missing. Run \`ipybox setup\` to install what it can
`,
  );
});

Deno.test("report() takes warnings for ready", () => {
  const item = { name: "x", version: null, detail: "", fix: "do not" };
  assertEquals(report([{ ...item, state: "warn" }]).endsWith("\nipybox is ready\n"), true);
});
