import { asset } from "../assets/mod.ts";

/** A file that pages are made of. */
export interface PageFile {
  readonly type: string;
  text(): string;
  /** Whether it has a form that browsers send. */
  readonly sends?: boolean;
}

const SCRIPT = "text/javascript; charset=utf-8";

/** How pages look. */
export const STYLE: PageFile = {
  type: "text/css; charset=utf-8",
  text: () => asset("approval_page/page.css"),
};

/** What browsers show beside the title. */
export const ICON: PageFile = {
  type: "image/svg+xml",
  text: () => asset("approval_page/icon.svg"),
};

/** The files by their names in the page's folder; the page itself has the empty one. */
export const PAGE_FILES: ReadonlyMap<string, PageFile> = new Map<string, PageFile>([
  file("", "text/html; charset=utf-8", () => asset("approval_page/page.html")),
  ["page.css", STYLE],
  ["icon.svg", ICON],
  file("main.js", SCRIPT, () => asset("approval_page/main.js")),
  file("arguments_editor.js", SCRIPT, () => asset("approval_page/arguments_editor.js")),
  file("board.js", SCRIPT, () => asset("approval_page/board.js")),
  file("decision.js", SCRIPT, () => asset("approval_page/decision.js")),
  file("dom.js", SCRIPT, () => asset("approval_page/dom.js")),
  file("guard.js", SCRIPT, () => asset("approval_page/guard.js")),
  file("json.js", SCRIPT, () => asset("approval_page/json.js")),
  file("json_view.js", SCRIPT, () => asset("approval_page/json_view.js")),
  file("keys.js", SCRIPT, () => asset("approval_page/keys.js")),
  file("lists.js", SCRIPT, () => asset("approval_page/lists.js")),
  file("request.js", SCRIPT, () => asset("approval_page/request.js")),
  file("visible.js", SCRIPT, () => asset("approval_page/visible.js")),
]);

/** The page on which a link's code is typed. */
export const CODE_PAGE: PageFile = {
  type: "text/html; charset=utf-8",
  text: () => asset("approval_page/code.html"),
  sends: true,
};

/** The page that says that there is nothing here, or no longer. */
export const CLOSED_PAGE: PageFile = {
  type: "text/html; charset=utf-8",
  text: () => asset("approval_page/closed.html"),
};

function file(name: string, type: string, text: () => string): [string, PageFile] {
  return [name, { type, text }];
}

/**
 * The headers of everything that pages are given: nothing from elsewhere runs or is loaded, no other
 * site frames or reads it, and no browser keeps it.
 */
export function pageHeaders(host: string, sends: boolean = false): Record<string, string> {
  return {
    "content-security-policy": [
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self'",
      "img-src 'self'",
      `connect-src 'self' ws://${host}`, // not every browser counts WebSockets as 'self'
      "base-uri 'none'",
      `form-action ${sends ? "'self'" : "'none'"}`,
      "frame-ancestors 'none'",
      "require-trusted-types-for 'script'",
      "trusted-types 'none'",
    ].join("; "),
    "cross-origin-embedder-policy": "require-corp",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
  };
}
