import { assertEquals } from "@std/assert";
import { lastWords } from "./traceback.ts";

Deno.test("lastWords() gives what was written since, however much was forgotten", () => {
  const rows: readonly [before: string, now: string, since: string][] = [
    ["", "", ""],
    ["", "a\n", "a\n"],
    ["a\n", "a\n", ""],
    ["a\n", "a\nb\n", "b\n"],
    ["a\nb\n", "b\nc\n", "c\n"],
    ["a\nb\n", "c\nd\n", "c\nd\n"],
    ["a\na\n", "a\na\na\n", "a\n"],
    ["a\nhalf", "a\nhalf a line\n", " a line\n"],
  ];
  for (const [before, now, since] of rows) assertEquals(lastWords(before, now), since);
});

Deno.test("lastWords() keeps of a crash what is the user's", () => {
  const crash = `Fatal Python error: Segmentation fault

Stack (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "/tmp/ipykernel_1/2.py", line 1 in <module>
  File "/env/lib/python3.11/site-packages/IPython/core/interactiveshell.py", line 3823 in run_code
  File "/usr/lib/python3.11/asyncio/events.py", line 80 in _run
  File "/tmp/launcher/kernel.py", line 51 in <module>

Extension modules: zmq.backend.cython._zmq (total: 1)
`;
  assertEquals(
    lastWords("", crash),
    `Fatal Python error: Segmentation fault

Stack (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "/tmp/ipykernel_1/2.py", line 1 in <module>
`,
  );
});
