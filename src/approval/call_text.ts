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
    (IDENTIFIER.test(name) ? named : others).push(describeArgument(name, value));
  }
  if (others.length > 0) named.push(`**{${others.join(", ")}}`);
  return `${callName(call)}(${named.join(", ")})`;
}

/**
 * Writes an argument of a call as Python would.
 *
 * @param name Its name.
 * @param value Its value.
 * @returns Such as `path='a.txt'`, or `'my path': 'a.txt'` for what is no name in Python.
 */
export function describeArgument(name: string, value: ExactJson): string {
  return IDENTIFIER.test(name) ? `${name}=${literal(value)}` : `${quoted(name)}: ${literal(value)}`;
}

/** What a call names: server and tool. */
export interface CallName {
  /** The registered server. */
  readonly serverName: string;
  /** The tool. */
  readonly toolName: string;
}

/**
 * Writes what a call names.
 *
 * @param call The call.
 * @returns Such as `fs.write_file`.
 */
export function callName({ serverName, toolName }: CallName): string {
  return `${plainName(serverName)}.${plainName(toolName)}`;
}

/**
 * Makes a text visible, whatever is in it: what is invisible, moves the cursor, turns the direction
 * or piles up marks is shown as an escape.
 *
 * @param text The text.
 * @returns The same on one line.
 */
export function visible(text: string): string {
  return escapeHidden(text, escapeCharacter);
}

/**
 * Escapes what {@linkcode visible} shows as escapes.
 *
 * @param text The text.
 * @param escape Escapes a character.
 * @returns The text with its escapes.
 */
export function escapeHidden(text: string, escape: (character: string) => string): string {
  return text.replace(HIDDEN, escape);
}

/**
 * Writes a text as Python would.
 *
 * @param text The text.
 * @returns It in quotes, all of it visible.
 */
export function quoted(text: string): string {
  return `'${visible(text.replace(/['\\]/g, "\\$&"))}'`;
}

function plainName(name: string): string {
  return PLAIN_NAME.test(name) ? name : quoted(name);
}

const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]*$/;
const PLAIN_NAME = /^[A-Za-z0-9_./:-]+$/;
/**
 * Controls and what Unicode has for formatting, spaces that are not the usual one, what fonts show
 * nothing for, the blank of Braille, and more than three marks on one character.
 */
const HIDDEN = /[\p{C}\p{Zl}\p{Zp}\p{DI}\u2800]|(?! )\p{Zs}|(?<=\p{M}{3})\p{M}/gu;

function literal(value: ExactJson): string {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "string") return quoted(value);
  if (typeof value === "number") return String(value);
  if (isRawNumber(value)) return value.rawJSON;
  if (isExactObject(value)) {
    const items = Object.entries(value).map(([name, inner]) =>
      `${quoted(name)}: ${literal(inner)}`
    );
    return `{${items.join(", ")}}`;
  }
  return Array.isArray(value) ? `[${value.map(literal).join(", ")}]` : "";
}

function escapeCharacter(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (character === "\n") return "\\n";
  if (character === "\r") return "\\r";
  if (character === "\t") return "\\t";
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
  if (code < 0x10000) return `\\u${code.toString(16).padStart(4, "0")}`;
  return `\\U${code.toString(16).padStart(8, "0")}`;
}
