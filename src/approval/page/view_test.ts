import { assertEquals } from "@std/assert";
import fc from "../../../tests/support/fast_check.ts";
import { parseExact, stringifyExact } from "../../json/exact.ts";
import { jsonOf } from "../../../templates/approval_page/arguments_editor.js";
import { shownValue } from "./view.ts";

Deno.test("what is edited on the page is what was shown, to the byte", () => {
  const edited = (text: string) => jsonOf(shownValue(parseExact(text)));
  fc.assert(fc.property(fc.jsonValue(), (value) => {
    const text = stringifyExact(value);
    assertEquals(stringifyExact(parseExact(edited(text))), text);
  }));
  const exact = '{"a":1.0,"b":-0,"c":123456789012345678901234567890,"d":[1E2,null],"e":{},"f":[]}';
  assertEquals(edited(exact).replaceAll(/\s/g, ""), exact);
  const texts = '{"oldText":"a\\nb","newText":"a\\nc","\\"":"\\u0000"}';
  assertEquals(stringifyExact(parseExact(edited(texts))), texts);
  const hidden = edited('{"a":"\\u202e\u200b\ud83d\ude00\u00ad"}');
  assertEquals(hidden, '{\n  "a": "\\u202e\\u200b😀\\u00ad"\n}');
});
