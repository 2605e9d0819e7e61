import { assertEquals } from "@std/assert";
import type { ExactJson } from "../json/exact.ts";
import { shapeOf } from "../json/shape.ts";
import { withAdditions } from "./additions.ts";
import { renderFiles } from "./generate.ts";

/** The module of a tool with the given properties. */
function moduleWith(properties: Record<string, unknown>): string {
  const tool = {
    name: "search",
    description: 'Finds "x".\n\nimport os',
    inputSchema: { properties },
  };
  return renderFiles("demo", { tools: [tool] }).files.get("search.py") ?? "";
}

const OLD = moduleWith({ query: { enum: ["a", "b"] } });
const NEW = moduleWith({ query: { type: "string" }, limit: { type: "integer" } });

const PARSER = `class ParseResult(BaseModel):
    """What the text says.

import nothing
"""

    title: str


@cache
# A comment of the user's.
def run_parsed(params: Params) -> ParseResult:
    return parse(run(params))`;

const IMPORTS = `from functools import cache

from pydantic import BaseModel

from mcpparse.demo.search import (
    parse,  # the parser
)`;

Deno.test("withAdditions() keeps functions, classes and the imports that they use", () => {
  const edited = OLD.replace("from . import CLIENT", `${IMPORTS}\nfrom . import CLIENT`) +
    `\n\n${PARSER}\n`;

  const text = withAdditions(NEW, edited, OLD);

  assertEquals(text.startsWith(NEW), true);
  const added = text.slice(NEW.length);
  for (
    const part of [
      PARSER.split("\n\n\n")[0] ?? "",
      "@cache",
      "def run_parsed",
      "BaseModel\n",
      "    parse,",
    ]
  ) {
    assertEquals(added.split(part).length, 2, part);
  }
  assertEquals(added.includes("class Query"), false);
});

Deno.test("withAdditions() finds the same additions again", () => {
  const once = withAdditions(NEW, `${OLD}\n\n${PARSER}\n`, OLD);
  assertEquals(withAdditions(NEW, once, NEW), once);
  assertEquals(withAdditions(NEW, once, undefined), once);
  const back = withAdditions(OLD, once, NEW);
  assertEquals(withAdditions(NEW, back, OLD), once);
});

Deno.test("withAdditions() takes nothing for an addition that was generated or changed", () => {
  assertEquals(withAdditions(NEW, OLD, OLD), NEW);
  const changed = OLD.replace(
    "class Params(InputModel):",
    "class Params(InputModel):\n    extra: int = 1",
  );
  assertEquals(withAdditions(NEW, changed, OLD), NEW);
  assertEquals(
    withAdditions(NEW, OLD.replace("return CLIENT", "print()\n    return CLIENT"), OLD),
    NEW,
  );
});

Deno.test("withAdditions() keeps a user's function of a name that is generated later", () => {
  const tool = { name: "search", inputSchema: { type: "object" } };
  const moduleOf = (value?: ExactJson) => {
    const results = new Map(
      value === undefined ? [] : [["search", { calls: 1, shape: shapeOf(value) }]],
    );
    return renderFiles("demo", { tools: [tool], results }).files.get("search.py") ?? "";
  };
  const own = "def run_json(params: Params) -> list[int]:\n    return parse(run(params))\n";
  const [before, after, later] = [moduleOf(), moduleOf({ a: { b: 1 } }), moduleOf({ c: 1 })];
  const kept = withAdditions(after, `${before}\n\n${own}`, before);
  assertEquals(kept.startsWith(after) && kept.endsWith(own), true);
  // What was learnt before is not the user's.
  assertEquals(withAdditions(later, after, after), later);
});
