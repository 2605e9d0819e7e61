import { type ExactJson, isExactObject, isRawNumber } from "../json/exact.ts";
import type { ApprovalCall } from "./request.ts";

/**
 * Writes a call as Python would, all of it, with whatever could fool a terminal or a reader escaped.
 *
 * @param call The call.
 * @returns One line, such as `fs.write_file(path='a.txt', content='hi')`.
 */
export function describeCall(call: ApprovalCall): string {
  const named: string[] = [];
  const others: string[] = [];
  for (const [name, value] of Object.entries(call.arguments)) {
    if (IDENTIFIER.test(name)) named.push(`${name}=${literal(value)}`);
    else others.push(`${quote(name)}: ${literal(value)}`);
  }
  if (others.length > 0) named.push(`**{${others.join(", ")}}`);
  return `${plainName(call.serverName)}.${plainName(call.toolName)}(${named.join(", ")})`;
}

function plainName(name: string): string {
  return PLAIN_NAME.test(name) ? name : quote(name);
}

const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]*$/;
const PLAIN_NAME = /^[A-Za-z0-9_./:-]+$/;
/** Quotes, backslashes, and all that is invisible or moves the cursor or turns the direction. */
const ESCAPED = /['\\]|[\p{C}\p{Zl}\p{Zp}]/gu;

function literal(value: ExactJson): string {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "string") return quote(value);
  if (typeof value === "number") return String(value);
  if (isRawNumber(value)) return value.rawJSON;
  if (isExactObject(value)) {
    const items = Object.entries(value).map(([name, inner]) => `${quote(name)}: ${literal(inner)}`);
    return `{${items.join(", ")}}`;
  }
  return Array.isArray(value) ? `[${value.map(literal).join(", ")}]` : "";
}

function quote(text: string): string {
  return `'${text.replace(ESCAPED, escapeCharacter)}'`;
}

function escapeCharacter(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (character === "'" || character === "\\") return `\\${character}`;
  if (character === "\n") return "\\n";
  if (character === "\r") return "\\r";
  if (character === "\t") return "\\t";
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
  if (code < 0x10000) return `\\u${code.toString(16).padStart(4, "0")}`;
  return `\\U${code.toString(16).padStart(8, "0")}`;
}
