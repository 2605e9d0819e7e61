import { dirname } from "node:path";
import { mayRead } from "../../base/permission.ts";
import { type ExactJson, isExactList, isExactObject } from "../../json/exact.ts";
import { isWide } from "../../sandbox/workspace.ts";
import { visibleCode } from "../call_text.ts";
import type { Pattern, PatternJudge, PatternTest } from "../pattern.ts";
import { type ApprovalCall, isShell } from "../request.ts";
import { readShell } from "./commands.ts";
import { PolicyRules } from "./rules.ts";

/** The options of {@linkcode patternJudge}. */
interface PatternJudgeOptions {
  readonly workspace?: string | undefined;
}

/** Judges remembered patterns like rules of a policy. */
export function patternJudge(options: PatternJudgeOptions = {}): PatternJudge {
  const { workspace } = options;
  // Folders are resolved once: later, they may lead elsewhere
  const known = new WeakMap<object, PolicyRules>();
  const matches: PatternJudge["matches"] = (remembered, call) => {
    const policy = known.getOrInsertComputed(remembered, () => {
      const rule = { effect: remembered.decision, ...remembered.where };
      const document = { rules: [rule], trustedServers: [], redact: [], tests: [] };
      return new PolicyRules([{ name: "remembered", document }], { workspace });
    });
    return policy.explain(call).findings[0]?.match === "yes";
  };
  const propose = (call: ApprovalCall) => {
    const where = isShell(call) ? commandOf(call) : placesOf(call);
    return where && matches({ decision: "allow", where }, call) ? where : undefined;
  };
  return { propose, matches };
}

/** More conditions, or longer ones, are not read. */
const MAX_TESTS = 3;
const MAX_LENGTH = 200;

/**
 * The folders and hosts that arguments name: all of them, so that the pattern allows no other one.
 */
function placesOf({ arguments: args }: ApprovalCall): Pattern | undefined {
  const tests: [pointer: string, test: PatternTest][] = [];
  for (const [name, value] of Object.entries(args)) {
    if (!namesPlace(value)) continue;
    const test = placeOf(value);
    if (test === undefined || !/^\w{1,60}$/.test(name)) return undefined;
    tests.push([`/${name}`, test]);
  }
  if (tests.length === 0 || tests.length > MAX_TESTS) return undefined;
  return { arguments: Object.fromEntries(tests) };
}

/** Whether a value has a path or a URL in it. */
function namesPlace(value: ExactJson): boolean {
  if (typeof value === "string") return /^\s*(\/|~|\.\.?\/|[a-z][a-z0-9+.-]*:[/\\])/i.test(value);
  if (isExactList(value)) return value.some(namesPlace);
  return isExactObject(value) && Object.values(value).some(namesPlace);
}

function placeOf(value: ExactJson): PatternTest | undefined {
  if (typeof value !== "string" || value.length > MAX_LENGTH) return undefined;
  if (value.startsWith("/")) {
    const folder = isFolder(value) ? value : dirname(value);
    // Never propose text that a person could misread
    return isWide(folder) || visibleCode(folder) !== folder ? undefined : { path: folder };
  }
  const url = /^https?:\/\//.test(value) ? URL.parse(value) : null;
  return url === null ? undefined : { prefix: `${url.origin}/` };
}

function isFolder(path: string): boolean {
  if (!mayRead(path)) return false; // code must not cause a prompt for permission
  try {
    return Deno.lstatSync(path).isDirectory;
  } catch {
    return false; // missing or inaccessible
  }
}

/**
 * The program of a simple command, and its subcommand. Programs that start others get no pattern.
 */
function commandOf({ arguments: { cmd } }: ApprovalCall): Pattern | undefined {
  const text = readShell(typeof cmd === "string" ? cmd : "");
  if (text.type === "other" || text.starts) return undefined;
  const [program = "", second = ""] = text.words;
  if (!/^[\w./+-]{1,100}$/.test(program)) return undefined;
  return { command: [program, ...(/^[a-z][a-z-]*$/.test(second) ? [second] : []), "**"].join(" ") };
}
