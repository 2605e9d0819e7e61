import { assertEquals } from "@std/assert";
import { parseLine, parseMessage, type RequestId, responseText, textForSdk } from "./message.ts";

const waiting = new Map<string, RequestId>([["1", 1], ["2", 2], ["a", "a"]]);

function read(line: string): unknown[] {
  return parseLine(line, waiting).map((message) => {
    const { id, method, error } = message as Record<string, unknown>;
    return method ?? (error === undefined ? id : `${id} fails`);
  });
}

const ANSWER = '{"jsonrpc":"2.0","id":1,"result":{"id":7,"x":[{"id":8}]}}';
const CHANGE = '{"jsonrpc":"2.0","method":"changed"}';

Deno.test("parseLine() reads all messages of a line", () => {
  assertEquals(read(ANSWER), [1]);
  assertEquals(read(`${ANSWER}${CHANGE} ${ANSWER}\r`), [1, "changed", 1]);
  assertEquals(read(`Listening on "stdio" ${ANSWER}`), ["1 fails"]);
  assertEquals(read(`${ANSWER.replace("7", "NaN")}${CHANGE}`), ["1 fails", "changed"]);
});

Deno.test("parseLine() fails the request whose answer is not JSON, by the id at the top", () => {
  for (const broken of ["NaN", "-Infinity", "1,", '"\t"', "'x'", "[1 2]"]) {
    assertEquals(read(`{"result":{"id":2,"x":${broken}},"id" : 1,"jsonrpc":"2.0"}`), ["1 fails"]);
  }
  assertEquals(read('{"jsonrpc":"2.0","id":"a","result":{},}'), ["a fails"]);
  assertEquals(read('{"jsonrpc":"2.0","id":"2","result":{},}'), ["2 fails"]); // as some servers write it
  assertEquals(read('{"jsonrpc":"2.0","id":9,"result":{},}'), []); // nobody waits for it
  assertEquals(read('{"jsonrpc":"2.0","id":1,"method":"ping",}'), []); // its own request
});

Deno.test("parseLine() fails all requests that wait if it cannot tell which one is answered", () => {
  const all = ["1 fails", "2 fails", "a fails"];
  assertEquals(read('  "jsonrpc": "2.0",'), all);
  assertEquals(read('{"jsonrpc":"2.0","result":{"id":1,}}'), all);
});

Deno.test("textForSdk() puts an error in the place of an answer that is not JSON", () => {
  const id = (text: string, own?: RequestId) => {
    const given = textForSdk(text, () => own);
    return given === text ? undefined : JSON.parse(given).id;
  };
  assertEquals(id('{"jsonrpc":"2.0","id":5,"result":{"x":NaN}}', 7), 5);
  assertEquals(id('{"jsonrpc":"2.0","result":{"x":NaN}}', 7), 7);
  assertEquals(id('{"jsonrpc":"2.0","result":{"x":NaN}}'), undefined);
  assertEquals(id('{"jsonrpc":"2.0","method":"x","params":NaN}', 7), undefined);
  assertEquals(id("[DONE]", 7), undefined);
});

Deno.test("the text of a tool's result passes the SDK, and all other messages are as they were", () => {
  const answer = '{"jsonrpc":"2.0","id":1,"result":{"content":[1],"isError":true,"n":1.0}}';
  const resultOf = (message: unknown) => Object(message).result;
  for (const read of [parseMessage, (text: string) => JSON.parse(textForSdk(text))]) {
    assertEquals(resultOf(read(answer)), {
      content: [],
      structuredContent: answer,
      isError: true,
      n: 1,
    });
    assertEquals(responseText(resultOf(read(answer))), answer);
    const others = [
      '{"jsonrpc":"2.0","id":1,"result":{"tools":[{"content":1}]}}',
      '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":{"content":1}}}',
      '{"jsonrpc":"2.0","method":"m","params":{"result":{"content":1}}}',
    ];
    for (const other of others) assertEquals(read(other), JSON.parse(other));
  }
  const [first] = JSON.parse(textForSdk(`[${answer}]`));
  assertEquals(JSON.parse(responseText(resultOf(first))), JSON.parse(answer));
});
