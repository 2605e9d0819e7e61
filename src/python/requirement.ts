/** A package to install. */
export interface Requirement {
  readonly text: string;
  /** The package's name; `undefined` if only its repository is known. */
  readonly name: string | undefined;
  /** The host of its Git repository; `undefined` for a package of the index. */
  readonly host: string | undefined;
}

/** A package's name, with extras. */
const NAME = String.raw`[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9._, -]+\])?`;
/** One version constraint. */
const VERSION = String.raw`(?:===|[=!<>~]=|<|>)\s*[A-Za-z0-9.*+!_-]+`;
/** One side of a comparison in a marker: a variable or a quoted string. */
const OPERAND = String.raw`(?:[a-z_]+|"[A-Za-z0-9_.+* -]*"|'[A-Za-z0-9_.+* -]*')`;
/**
 * Word boundaries leave only one way to match it: with several, a refusal would take exponential
 * time.
 */
const COMPARISON = String.raw`${OPERAND}\s*(?:===|[=!<>~]=|<|>|\b(?:not in|in)\b)\s*${OPERAND}`;
/** The Pythons and systems that a requirement applies to (PEP 508). */
const MARKER = String.raw`;\s*${COMPARISON}(?:\s+(?:and|or)\s+${COMPARISON})*`;
const INDEXED = new RegExp(
  `^${NAME}\\s*(?:${VERSION}(?:\\s*,\\s*${VERSION})*)?\\s*(?:${MARKER})?$`,
);
/** Without white space, quotes or `$`: installers substitute variables in some places. */
const REPOSITORY = new RegExp(
  String.raw`^(?:${NAME}\s*@\s*)?git\+(https://[A-Za-z0-9._~:/@#&=%+-]+)$`,
);
/** A public host name: no IP address, no pattern, no local name. */
const HOST =
  /^(?!.*\.localhost$)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,9}[a-z][a-z0-9-]{0,61}[a-z0-9]$/;
const MAX_LENGTH = 500;

/** Whether a host has a public name, so that a sandbox may reach it without opening this machine's network. */
export function isPublicHost(hostname: string): boolean {
  return HOST.test(hostname);
}

/** The form of a name in which packages are compared (PEP 503). */
export function normalized(name: string): string {
  return name.toLowerCase().replaceAll(/[-_.]+/g, "-");
}

/** Parses a package of the index or a Git repository over HTTPS. Rejects paths, options and other URLs. */
export function parseRequirement(text: string): Requirement {
  const trimmed = text.trim();
  if (trimmed.length <= MAX_LENGTH) {
    if (INDEXED.test(trimmed)) {
      return { text: trimmed, name: /^[A-Za-z0-9._-]+/.exec(trimmed)?.[0], host: undefined };
    }
    const address = REPOSITORY.exec(trimmed)?.[1];
    const url = address === undefined ? null : URL.parse(address);
    const isPlain = url !== null && url.username === "" && url.password === "" && url.port === "" &&
      isPublicHost(url.hostname) && url.pathname.length > 1;
    if (isPlain) return { text: trimmed, name: undefined, host: url.hostname };
  }
  throw new TypeError(
    `Cannot install ${JSON.stringify(text.slice(0, 200))}: give a package's name, such as ` +
      `"pandas" or "pandas>=2,<3", or a Git repository, such as "git+https://HOST/OWNER/NAME@TAG"`,
  );
}

/** Parses a requirements file: one requirement per line, and comments. */
export function parseRequirements(text: string, source: string): Requirement[] {
  return text.split(/\r?\n/).flatMap((line, index) => {
    const requirement = line.replace(/(^|\s)#.*/, "").trim(); // as in pip
    if (requirement === "") return [];
    try {
      return [parseRequirement(requirement)];
    } catch (cause) {
      if (!(cause instanceof TypeError)) throw cause;
      throw new TypeError(`${source}:${index + 1}: ${cause.message}`, { cause });
    }
  });
}
