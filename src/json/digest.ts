import { createHash, createHmac } from "node:crypto";
import { type ExactJson, isExactList, isExactObject, stringifyExact } from "./exact.ts";

/** The SHA-256 of a text in UTF-8, or of bytes, in hexadecimal digits. */
export function sha256(data: string | Uint8Array): string {
  return createHash("sha256").update(data).digest("hex");
}

/** The HMAC-SHA-256 of a text in UTF-8, in hexadecimal digits. */
export function hmacSha256(key: Uint8Array, text: string): string {
  return createHmac("sha256", key).update(text).digest("hex");
}

/** Writes a value as canonical JSON, with the names in objects sorted. */
export function canonicalJson(value: ExactJson): string {
  if (isExactList(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (!isExactObject(value)) return stringifyExact(value);
  const members = Object.entries(value)
    .sort(([one], [other]) => one < other ? -1 : 1)
    .map(([name, inner]) => `${JSON.stringify(name)}:${canonicalJson(inner)}`);
  return `{${members.join(",")}}`;
}
