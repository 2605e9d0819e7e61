import { assertEquals } from "@std/assert";
import { LinkedSignal } from "./signals.ts";

Deno.test("LinkedSignal aborts with the first of its sources, for its reason", () => {
  const [one, other] = [new AbortController(), new AbortController()];
  using linked = new LinkedSignal(one.signal, undefined, other.signal);
  assertEquals(linked.signal.aborted, false);
  other.abort("other");
  one.abort("one");
  assertEquals(linked.signal.reason, "other");
});

Deno.test("LinkedSignal of a signal that has aborted has aborted", () => {
  const controller = new AbortController();
  using linked = new LinkedSignal(controller.signal, AbortSignal.abort("before"));
  assertEquals(linked.signal.reason, "before");
});

Deno.test("LinkedSignal that was disposed does not abort any more", () => {
  const controller = new AbortController();
  const linked = new LinkedSignal(controller.signal);
  linked[Symbol.dispose]();
  controller.abort();
  assertEquals(linked.signal.aborted, false);
});
