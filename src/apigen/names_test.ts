import fc from "../../tests/support/fast_check.ts";
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { ClassNames, fieldNames, moduleNames, singular } from "./names.ts";

Deno.test("moduleNames() follows the reference where that can be imported", () => {
  const names = moduleNames([
    "get-sum",
    "Read.File",
    "class",
    "1st",
    "_x",
    "__init__",
    "-",
    "日本",
  ]);
  assertEquals([...names].sort(), [
    ["-", "tool"],
    ["1st", "tool_1st"],
    ["Read.File", "read_file"],
    ["__init__", "tool_init__"],
    ["_x", "tool_x"],
    ["class", "class_"],
    ["get-sum", "get_sum"],
    ["日本", "tool_2"],
  ]);
});

Deno.test("moduleNames() leaves a name to the tool that needs no change", () => {
  const names = moduleNames(["a-b", "a_b", "A_B", "a_b_2"]);
  assertEquals(names.get("a_b"), "a_b");
  assertEquals(names.get("a_b_2"), "a_b_2");
  assertEquals([names.get("A_B"), names.get("a-b")], ["a_b_3", "a_b_4"]);
});

Deno.test("moduleNames() shortens long names without making two of them equal", () => {
  const names = moduleNames(["n".repeat(200), "n".repeat(199) + "m"]);
  const [first = "", second = ""] = names.values();
  assertEquals([first.length, second.length], [100, 100]);
  assertNotEquals(first, second);
});

Deno.test("moduleNames() gives names that can be imported, all different, in whatever order", () => {
  const awkward = fc.string({
    unit: fc.constantFrom("a", "A", "_", "-", "1", "é", "."),
    minLength: 1,
  });
  fc.assert(fc.property(fc.uniqueArray(awkward), (tools) => {
    const names = moduleNames(tools);
    const other = moduleNames(tools.toReversed());
    assertEquals(new Set(names.values()).size, tools.length);
    for (const tool of tools) {
      assert(/^[a-z][a-z0-9_]{0,120}$/.test(names.get(tool) ?? ""), tool);
      assertEquals(other.get(tool), names.get(tool));
    }
  }));
});

Deno.test("fieldNames() changes only names that Python or Pydantic cannot have", () => {
  const names = fieldNames([
    "type",
    "filter",
    "camelCase",
    "größe",
    "from",
    "json",
    "model_dump",
    "model_id",
    "str",
    "self",
    "x-y",
    "$ref",
    "_x",
    "",
    "__",
    "1st",
    "ﬁ",
    "e\u0301",
    "٣",
    "a・b",
    "😀",
  ]);
  assertEquals(Object.fromEntries(names), {
    "type": "type",
    "filter": "filter",
    "camelCase": "camelCase",
    "größe": "größe",
    "from": "from_",
    "json": "json_",
    "model_dump": "model_dump_",
    "model_id": "model_id",
    "str": "str_",
    "self": "self_",
    "x-y": "x_y",
    "$ref": "field_ref",
    "_x": "field_x",
    "": "field",
    "__": "field__",
    "1st": "field_1st",
    "ﬁ": "fi",
    "e\u0301": "é",
    "٣": "field_٣",
    "a・b": "a_b",
    "😀": "field_",
  });
});

Deno.test("fieldNames() never takes a property's own name for another", () => {
  const names = fieldNames(["from_", "from", "x y", "x-y", "x_y", "x_y_2"]);
  assertEquals(names.get("from_"), "from_");
  assertEquals(names.get("from"), "from__2");
  assertEquals(names.get("x_y"), "x_y");
  assertEquals(names.get("x_y_2"), "x_y_2");
  assertEquals(new Set(names.values()).size, 6);
});

Deno.test("ClassNames gives PascalCase that hides no builtin, no import and no property", () => {
  const names = new ClassNames(new Set(["Sort"]));
  const given = ["sort", "head-branch", "Params", "literal", "1st", "日本", "sort", "key error"];
  assertEquals(given.map((hint) => names.next(hint)), [
    "Sort2",
    "HeadBranch",
    "Params2",
    "Literal2",
    "N1st",
    "Item",
    "Sort3",
    "KeyError2",
  ]);
});

Deno.test("singular() gives what English has for one of several", () => {
  const nouns =
    "entities entity emailAddresses emailAddress from_addresses from_address cities city " +
    "singleValueExtendedProperties singleValueExtendedProperty searchIndexes searchIndex " +
    "typeSummaries typeSummary branches branch boxes box issues issue responses response cases case " +
    "databases database phases phase statuses status viruses virus houses house pauses pause " +
    "causes cause uses use caches cache movies movie queries query keys key IDs ID userIds userId " +
    "tags tag matches match processes process analyses analysis axes axis heroes hero shoes shoe " +
    "archives archive leaves leaf children child people person criteria criterion files file " +
    "ColumnNames ColumnName urls url aliases alias classes class dishes dish images image " +
    "attendees attendee purchases purchase services service slides slide messages message " +
    "cookies cookie URLs URL";
  const list = nouns.split(" ");
  for (let at = 0; at < list.length; at += 2) assertEquals(singular(list[at] ?? ""), list[at + 1]);
});

Deno.test("singular() leaves alone what is not a plural", () => {
  for (
    const word of "status address data news series analysis alias bus entity s as list 日本 css"
      .split(" ")
  ) {
    assertEquals(singular(word), undefined, word);
  }
});
