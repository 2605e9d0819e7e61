/**
 * Words that mean the same to someone who looks for a tool: forms of one word, and other words for it.
 *
 * @module
 */

/**
 * Other words for what tools do and what they do it to. A word may stand in several groups; what is
 * related to one group's word is not to the other's.
 */
const GROUPS: readonly string[] = [
  "create add new make insert open post register generate",
  "delete remove erase drop clear destroy purge forget clean",
  "update edit modify change set patch adjust alter mark",
  "get fetch retrieve read show view see describe display open look",
  "list show enumerate browse which",
  "search find query lookup look discover filter locate where explore",
  "send post push message publish notify broadcast",
  "run execute start launch trigger invoke kick call begin",
  "stop abort cancel kill terminate end halt",
  "restart reboot rollout rerun retry redo",
  "save write store put commit",
  "copy clone fork duplicate",
  "move rename relocate",
  "upload attach import load append",
  "download export save",
  "deploy release ship rollout",
  "build package compile bundle",
  "test check validate verify try",
  "approve accept merge allow",
  "analyze analysis diagnose investigate cause root debug reason",
  "transition move status state resolve",
  "switch checkout branch",
  "remember memory observation store note",
  "simulate would",
  "click press tap button",
  "type write enter fill input",
  "navigate go visit open url",
  "transcribe transcript speech text",
  "speech voice audio aloud sound speak say",
  "image picture screenshot photo capture snapshot icon",
  "comment note reply remark annotation",
  "issue ticket bug error problem defect incident crash",
  "repository repo project",
  "pull pr",
  "request pr mr",
  "merge mr",
  "commit change log history",
  "log output message console line",
  "database db sql table collection",
  "row record item entry document",
  "column field attribute property",
  "sheet worksheet spreadsheet workbook",
  "cell range",
  "folder directory path",
  "file document attachment",
  "content text body",
  "info information detail metadata about",
  "user person people member account profile contact somebody",
  "permission policy access role right",
  "secret key password credential vault",
  "price cost spend pricing bill budget money",
  "anomaly unexpected spike",
  "page web website site url html",
  "channel room conversation thread",
  "message text chat",
  "emoji reaction",
  "time clock date timezone",
  "hour worklog time",
  "chart graph plot diagram",
  "format style bold font",
  "pod container exec",
  "scale dyno resize",
  "job task run workflow pipeline",
  "pipeline workflow build ci",
  "flaky sometime",
  "fail failure failed error",
  "audit event trail",
  "alarm alert firing active",
  "metric cpu measure value",
  "config configuration setting option",
  "company contact object deal crm",
  "data dataset result output",
  "markdown scrape",
  "last recent latest",
  "map sitemap",
];

/**
 * The form that a word's forms share, such as `creat` for create, creates, creating and creation.
 */
export function stem(word: string): string {
  if (word.length < 4 || !/^[a-z]+$/.test(word)) return word;
  const base = withoutEnding(word);
  const single = /([bdfgkmnprt])\1$/.test(base) && base !== word ? base.slice(0, -1) : base;
  if (single.length > 3 && single.endsWith("e")) return single.slice(0, -1);
  return single.length > 3 && single.endsWith("y") ? `${single.slice(0, -1)}i` : single;
}

/** Other words for a word. */
export function relatedTo(stemmed: string): ReadonlySet<string> {
  return related.get(stemmed) ?? NONE;
}

const NONE: ReadonlySet<string> = new Set();

function withoutEnding(word: string): string {
  for (const [ending, shortest] of ENDINGS) {
    if (word.endsWith(ending) && word.length - ending.length >= shortest) {
      return word.slice(0, -ending.length);
    }
  }
  return /[st]ion$/.test(word) && word.length > 5 ? word.slice(0, -3) : word;
}

/** What is cut off, and how much must be left. */
const ENDINGS: readonly (readonly [ending: string, shortest: number])[] = [
  ["ing", 3],
  ["ment", 4],
  ["ed", 3],
];

function relations(): Map<string, Set<string>> {
  const all = new Map<string, Set<string>>();
  for (const group of GROUPS) {
    const stems = group.split(" ").map(stem);
    for (const one of stems) {
      const others = all.get(one) ?? new Set();
      for (const other of stems) if (other !== one) others.add(other);
      all.set(one, others);
    }
  }
  return all;
}

const related = relations();
