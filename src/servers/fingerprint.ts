/** Describes servers and tools: the text that people see, and the fingerprint that consents are bound to. */
import type { FingerprintPart } from "../approval/consents.ts";
import { quoted, visible } from "../approval/call_text.ts";
import { canonicalJson } from "../json/digest.ts";
import { toExact } from "../json/exact.ts";
import { parsedJson } from "../json/plain.ts";
import type { Tool } from "../mcp/tools.ts";
import { replaceVariables, type ServerParams, type StdioServerParams } from "../mcp/params.ts";

/**
 * More parameters than this, or any with a longer name, make all of them one part of the
 * fingerprint.
 */
const MAX_PARAMETERS = 200;
const MAX_NAME = 200;

/** Cached by the immutable parameters, as every call needs it. */
const launchTexts = new WeakMap<ServerParams, string>();

/**
 * Describes how a server is started or reached: its command line with its environment variables, or
 * its URL with the names of its headers. `${VAR}` stays. Only values with secret-sounding names are
 * omitted: everything else can change what runs.
 */
export function launchText(params: ServerParams): string {
  return launchTexts.getOrInsertComputed(params, writeLaunch);
}

function writeLaunch(params: ServerParams): string {
  if ("command" in params) {
    const env = Object.entries(params.env ?? {})
      .map(([name, value]) => `${visibleWord(name)}=${variableText(name, value) ?? "…"}`);
    return [...env, ...commandWords(params)].join(" ");
  }
  const headers = Object.keys(params.headers ?? {});
  const url = urlText(params.url);
  const names = headers.map(visibleWord).join(", ");
  return headers.length === 0 ? url : `${url} (headers: ${names})`;
}

/** Lists the parts of a server's registration that a consent to its tools is bound to. */
export function serverFingerprint(params: ServerParams): FingerprintPart[] {
  if ("command" in params) {
    const { command, args = [], env = {}, cwd, sandbox, protocol, ...rest } = params;
    const { connectTimeoutMs: _, ...others } = rest; // does not change what runs
    return [
      {
        name: "command",
        about: "server",
        value: JSON.stringify([command, ...args]),
        shown: commandWords(params).join(" "),
      },
      ...Object.entries(env).map(([name, value]) =>
        hidden(`environment variable ${quoted(name)}`, value, variableText(name, value))
      ),
      ...jsonParts("server", { "working directory": cwd, sandbox, protocol }),
      ...otherParts(others),
    ];
  }
  const { url, headers = {}, type, protocol, connectTimeoutMs: _, ...others } = params;
  return [
    { name: "URL", about: "server", value: url, shown: urlText(url) },
    ...Object.entries(headers).map(([name, value]) =>
      hidden(`header ${quoted(name)}`, value, isVariable(value) ? value : undefined)
    ),
    ...jsonParts("server", { transport: type, protocol }),
    ...otherParts(others),
  ];
}

/** Cached by the immutable definitions, as calls with a possible consent need it. */
const fingerprintOfTools = new WeakMap<Tool, readonly FingerprintPart[]>();

/** Lists the parts of a tool that a consent to it is bound to. */
export function toolFingerprint(tool: Tool | undefined): readonly FingerprintPart[] {
  if (tool === undefined) return [shown("tool", "definition", "none")];
  return fingerprintOfTools.getOrInsertComputed(tool, listToolParts);
}

function listToolParts(tool: Tool): FingerprintPart[] {
  const { title, description, annotations, outputSchema } = tool;
  const { properties: listed, ...rest } = tool.inputSchema;
  const properties = new Map<string, unknown>(
    typeof listed === "object" && listed !== null ? Object.entries(listed) : [],
  );
  return [
    ...textParts({ title, description }),
    ...jsonParts("tool", { annotations }),
    ...(properties.size > MAX_PARAMETERS ||
        properties.keys().some((name) => name.length > MAX_NAME)
      ? jsonParts("tool", { parameters: listed })
      : [...properties].map(([name, value]) =>
        shown("tool", `parameter ${quoted(name)}`, json(value))
      )),
    ...jsonParts("tool", { "input schema": rest, "output schema": outputSchema }),
  ];
}

function shown(about: FingerprintPart["about"], name: string, value: string): FingerprintPart {
  return { name, about, value, shown: value };
}

function textParts(values: Readonly<Record<string, string | undefined>>): FingerprintPart[] {
  return Object.entries(values)
    .flatMap(([name, text]) => text === undefined ? [] : [shown("tool", name, text)]);
}

function jsonParts(
  about: FingerprintPart["about"],
  values: Readonly<Record<string, unknown>>,
): FingerprintPart[] {
  return Object.entries(values)
    .flatMap(([name, value]) => value === undefined ? [] : [shown(about, name, json(value))]);
}

/** A value that people see as `text`; without it, they only see that the value changed. */
function hidden(name: string, value: string, text: string | undefined): FingerprintPart {
  const part = { name, about: "server", value } as const;
  return text === undefined ? part : { ...part, shown: text };
}

/** Parameters that this module does not know. They may be secret. */
function otherParts(values: Readonly<Record<string, unknown>>): FingerprintPart[] {
  return jsonParts("server", values).map(({ shown: _hidden, ...part }) => part);
}

function json(value: unknown): string {
  return canonicalJson(toExact(value));
}

/** The command and its arguments, with every character visible. */
function commandWords({ command, args = [] }: StdioServerParams): string[] {
  return [visibleWord(withoutPassword(command)), ...args.map(argumentText)];
}

/** The shown value of an environment variable; `undefined` for a secret. */
function variableText(name: string, value: string): string | undefined {
  const isSecret = saysSecret(name) && !RUNS.test(name) && !isVariable(value) && isData(value);
  return isSecret ? undefined : visibleWord(withoutPassword(value));
}

/** An argument, without secret values as in `--token=abc` or `Authorization: Bearer abc`. */
function argumentText(word: string): string {
  const [, name = "", value = ""] = NAMED_SECRET.exec(word) ?? [];
  const isSecret = value !== "" && saysSecret(name);
  return isSecret ? `${visibleWord(name)}…` : visibleWord(withoutPassword(word));
}

/**
 * A name with a value of one word, as secrets are. Values that a shell or another program would
 * interpret, such as in `X_TOKEN=$(curl …)` or `--plugin-key=/tmp/x.so`, are not secrets.
 */
const NAMED_SECRET =
  /^(-{0,2}[A-Za-z][\w-]*(?:=|: ?))((?:(?:Bearer|Basic|Token) )?(?![./~])[\w.+/=~-]+)$/;
/** Neither a path nor options nor anything that a shell would run. */
const PLAIN = /^(?![./~-])(?:[^(){};|&<>`$'"\\\p{Cc}]|\$\{\w+\})*$/u;
const PRIVATE_KEY = /^-----BEGIN [A-Z ]+-----[\w+/=\s]+-----END [A-Z ]+-----\s*$/;

/** Whether a value can only be data, as secrets are. Anything that could run must be visible. */
function isData(value: string): boolean {
  if (PLAIN.test(value)) return !value.includes(" ") || !value.includes("/", value.indexOf(" "));
  if (PRIVATE_KEY.test(value)) return true;
  if (/[$`]/.test(value)) return false;
  return parsedJson(value) !== undefined;
}

/** Variables that decide what runs, even if their names sound secret. */
const RUNS = /^(BASH_|LD_|DYLD_|GIT_)|_OPTIONS$|_OPTS$/;
const SECRET_WORDS: ReadonlySet<string> = new Set([
  ...["token", "tokens", "key", "keys", "apikey", "secret", "secrets", "password", "passwords"],
  ...["passwd", "passphrase", "credential", "credentials", "authorization", "cookie"],
]);

/** Whether a name contains a word for secrets. */
function saysSecret(name: string): boolean {
  const words = name.replace(/([a-z0-9])([A-Z])/g, "$1 $2").toLowerCase().split(/[^a-z0-9]+/);
  return words.some((word) => SECRET_WORDS.has(word));
}

/** Replaces passwords in URLs. */
function withoutPassword(text: string): string {
  return text.replace(/(:\/\/[^\s/:@]*:)([^\s/@$]+)(?=@)/g, "$1…");
}

/** Quotes a word for people, not for a shell like `shellWord()`: `${VAR}` stays as it is. */
function visibleWord(word: string): string {
  return /^[\w@%+=:,./${}~-]+$/.test(word) ? word : quoted(word);
}

/** A URL without its password and the values of query parameters with secret-sounding names. */
function urlText(text: string): string {
  const parts = /^([^?#]*)(\?[^#]*)?(#.*)?$/s.exec(text);
  const [, address = "", query = "", fragment = ""] = parts ?? [];
  const hidden = query.split("&").map((pair) => {
    const equals = pair.indexOf("=");
    const name = pair.slice(pair.startsWith("?") ? 1 : 0, Math.max(0, equals));
    const isSecret = equals !== -1 && saysSecret(name) && !hasVariable(pair.slice(equals + 1));
    return isSecret ? `${pair.slice(0, equals)}=…` : pair;
  }).join("&");
  return visible(withoutPassword(address) + hidden + fragment);
}

function hasVariable(text: string): boolean {
  let found = false;
  replaceVariables(text, (body) => {
    const isVariable = /^\w+(?::-[^]*)?$/.test(body);
    found ||= isVariable;
    return isVariable ? "" : undefined;
  });
  return found;
}

function isVariable(text: string): boolean {
  return /^\$\{\w+\}$/.test(text);
}
