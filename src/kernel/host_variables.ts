import { hostEnvs } from "../base/permission.ts";

/** Variables that describe the user and the machine, and are no secrets. */
const NAMES: readonly string[] = [
  "TZ",
  "USER",
  "LOGNAME",
  "LANGUAGE",
  ..."GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL".split(" "),
];

const LOCALE: readonly string[] = [
  "LANG",
  ..."LC_ALL LC_COLLATE LC_CTYPE LC_MESSAGES LC_MONETARY LC_NUMERIC LC_TIME".split(" "),
];

/** The variables of this machine that kernels on it get. */
export function hostVariables(): Record<string, string> {
  const locale = Object.entries(hostEnvs(LOCALE))
    .filter(([, value]) => /utf-?8/i.test(value)); // what kernels print has no other encoding
  return { ...Object.fromEntries(locale), ...hostEnvs(NAMES) };
}
