/**
 * Finds what a user added to a generated module, such as `run_parsed`, so that regenerating the module
 * keeps it. Edits to generated code are not kept.
 *
 * @module
 */

/** The line between generated code and additions. */
const MARKER = "# Additions: ipybox keeps everything below when it regenerates this module.";

/** A top-level statement. */
interface Statement {
  /** Its source, with the comments and decorators above it. */
  readonly text: string;
  readonly isImport: boolean;
  /** The names that it binds. */
  readonly names: readonly string[];
}

/** Adds a user's additions to a regenerated module. `former` is what was generated before. */
export function withAdditions(
  generated: string,
  present: string,
  former: string = generated,
): string {
  const ours = [...statementsOf(generated), ...statementsOf(former)];
  const texts = new Set(ours.map((statement) => statement.text));
  // A definition that was not generated before is the user's, even if a new one has the same name.
  const names = new Set(
    statementsOf(former).filter((statement) => !statement.isImport)
      .flatMap((statement) => statement.names),
  );
  const added = statementsOf(present).filter((statement) =>
    !texts.has(statement.text) && !statement.names.some((name) => names.has(name)) &&
    !isGenerated(statement)
  );
  const code = added.filter((statement) => !statement.isImport);
  const used = new Set(code.flatMap((statement) => statement.text.match(/\w+/g) ?? []));
  const imported = new Set(
    statementsOf(generated).filter((statement) => statement.isImport).flatMap(({ names }) => names),
  );
  const imports = added.filter((statement) =>
    statement.isImport &&
    statement.names.some((name) => (used.has(name) || name === "*") && !imported.has(name))
  );
  if (code.length === 0) return generated;
  const head = imports.map((statement) => statement.text).join("\n");
  const body = code.map((statement) => statement.text).join("\n\n\n");
  return `${generated}\n\n${MARKER}\n\n${head === "" ? "" : `${head}\n\n\n`}${body}\n`;
}

/** Whether a statement that names nothing was generated, even if its text was changed since. */
function isGenerated({ text }: Statement): boolean {
  return /^\s*(?:[rbuf]*["'])/i.test(text) || // a docstring
    /^\w+\.model_rebuild\(\)$/.test(text) || /^from __future__ import/.test(text);
}

/** Splits a module into top-level statements. */
function statementsOf(source: string): Statement[] {
  const statements: Statement[] = [];
  let comments: string[] = [];
  let lines: string[] = [];
  let isDecorated = false; // whether there are only decorators yet
  const finish = () => {
    if (lines.length === 0) return;
    const text = [...comments, ...lines].join("\n").trimEnd();
    statements.push(describe(text, lines.join("\n").trimEnd()));
    [comments, lines] = [[], []];
  };
  const take = (text: string) => {
    isDecorated = (lines.length === 0 || isDecorated) && /^[@\s)]/.test(text);
    lines.push(text);
  };
  for (const { text, isStart } of physicalLines(source)) {
    const startsNext = isStart && /^[^\s#)\]}]/.test(text) &&
      !/^(?:else|elif|except|finally)\b/.test(text);
    if (isStart && /^#/.test(text)) {
      finish();
      if (text !== MARKER) comments.push(text);
    } else if (startsNext && !(lines.length > 0 && isDecorated)) {
      finish();
      take(text);
    } else if (lines.length > 0) take(text);
  }
  finish();
  return statements;
}

/** The lines of a module, and whether a statement can start there: not inside strings or brackets. */
function* physicalLines(source: string): Generator<{ text: string; isStart: boolean }> {
  let quote = "";
  let depth = 0;
  let continued = false;
  for (const text of source.replaceAll("\r\n", "\n").split("\n")) {
    yield { text, isStart: quote === "" && depth === 0 && !continued };
    ({ quote, depth } = scan(text, quote, depth));
    continued = quote === "" && text.endsWith("\\");
  }
}

/** Tracks strings and brackets through a line. */
function scan(line: string, quote: string, depth: number): { quote: string; depth: number } {
  for (let at = 0; at < line.length; at++) {
    const char = line[at] ?? "";
    if (quote !== "") {
      if (char === "\\") at++;
      else if (line.startsWith(quote, at)) {
        at += quote.length - 1;
        quote = "";
      }
    } else if (char === "#") break;
    else if (char === '"' || char === "'") {
      quote = line.startsWith(char.repeat(3), at) ? char.repeat(3) : char;
      at += quote.length - 1;
    } else if ("([{".includes(char)) depth++;
    else if (")]}".includes(char)) depth = Math.max(0, depth - 1);
  }
  // A string that is not triple-quoted ends with its line.
  return { quote: quote.length === 1 && !line.endsWith("\\") ? "" : quote, depth };
}

function describe(text: string, code: string): Statement {
  const definition = /^(?:async\s+)?(?:def|class)\s+(\w+)/m.exec(code.replace(/^(?:@.*\n)+/, ""));
  if (/^(?:import|from)\s/.test(code)) return { text, isImport: true, names: importedNames(code) };
  if (/^(?:@|async\s|def\s|class\s)/.test(code)) {
    return { text, isImport: false, names: definition?.[1] === undefined ? [] : [definition[1]] };
  }
  const assigned = /^(\w+)\s*(?::[^=]*)?=(?!=)/.exec(code)?.[1];
  return { text, isImport: false, names: assigned === undefined ? [] : [assigned] };
}

function importedNames(code: string): string[] {
  const list = code.replace(/#.*$/gm, "").replace(/^(?:from\s+\S+\s+)?import\s+/, "");
  return list.replaceAll(/[()\\\n]/g, " ").split(",").flatMap((part) => {
    const match = /^\s*([\w.*]+)(?:\s+as\s+(\w+))?\s*$/.exec(part);
    const name = match?.[2] ?? match?.[1]?.split(".")[0];
    return name === undefined ? [] : [name];
  });
}
