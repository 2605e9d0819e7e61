/** The frames of a fatal error's stack that run the user's code, from the innermost one on. */
const OWN_FRAMES =
  /(\n {2}File "[^"\n]*\/IPython\/core\/interactiveshell\.py", line \d+ in run_code)(?:\n {2}File [^\n]*)*/g;

/** The modules that are loaded in every kernel, which follow such a stack. */
const EXTENSION_MODULES = /(?<!\n)\n+Extension modules: [^\n]*/g;

/**
 * What a process has said since an earlier moment, as far as it helps to understand its end: of the
 * stack of a crash, only the frames that are the user's.
 */
export function lastWords(before: string, now: string): string {
  return writtenSince(before, now).replace(OWN_FRAMES, "").replace(EXTENSION_MODULES, "");
}

/** What was added to a text of which only whole lines at the end are kept. */
function writtenSince(before: string, now: string): string {
  for (let start = 0;;) {
    const kept = before.slice(start);
    if (now.startsWith(kept)) return now.slice(kept.length);
    const end = before.indexOf("\n", start);
    if (end === -1) return now;
    start = end + 1;
  }
}
