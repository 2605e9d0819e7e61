import { assertEquals } from "@std/assert";
import { singular } from "./names.ts";

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
