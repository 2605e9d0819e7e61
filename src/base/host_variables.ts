/** The variables that lead programs to a proxy. */
export const PROXY_VARIABLES: readonly string[] = [
  "HTTP_PROXY",
  "HTTPS_PROXY",
  "ALL_PROXY",
  "NO_PROXY",
]
  .flatMap((name) => [name, name.toLowerCase()]);

/** The variables for the encoding, sort order, number formats and language of programs. */
export const LOCALE_VARIABLES: readonly string[] = [
  "LANG",
  ..."LC_ALL LC_COLLATE LC_CTYPE LC_MESSAGES LC_MONETARY LC_NUMERIC LC_TIME".split(" "),
];
