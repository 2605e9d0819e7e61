import { assertEquals } from "@std/assert";
import { Bm25, wordsOf } from "./search.ts";

function search(query: string, ...texts: string[]): string[] {
  const index = new Bm25(texts, (text) => [{ text, weight: 1 }]);
  return index.search(query).map(({ item }) => item);
}

Deno.test("wordsOf() takes names apart and knows plurals", () => {
  assertEquals(wordsOf("listHTTPServers get_repositories the 2 boxes"), [
    "list",
    "http",
    "server",
    "get",
    "repository",
    "2",
    "box",
  ]);
});

Deno.test("Bm25 puts documents with the rarer word first", () => {
  const found = search("create issue", "create file", "create branch", "close issue", "create tag");
  assertEquals(found, ["close issue", "create file", "create branch", "create tag"]);
});

Deno.test("Bm25 finds what has most of the words, and shorter texts before longer ones", () => {
  assertEquals(
    search("send message", "send", "a message to send to somebody else", "send message", "other"),
    ["send message", "a message to send to somebody else", "send"],
  );
});

Deno.test("Bm25 finds words by how they begin, after those that are the same", () => {
  assertEquals(search("repo", "search repositories", "a repo of them all and more"), [
    "a repo of them all and more",
    "search repositories",
  ]);
  assertEquals(search("re", "repositories"), []);
});

Deno.test("Bm25 finds nothing for words that nothing has", () => {
  assertEquals(search("xylophone", "search repositories"), []);
  assertEquals(search("the of", "search repositories"), []);
  assertEquals(search("anything"), []);
});
