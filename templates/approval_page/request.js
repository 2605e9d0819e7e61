/**
 * Shows a request in full.
 *
 * @module
 */
import { byId, count, el } from "./dom.js";
import { argumentsView, blockView, folded } from "./json_view.js";
import { foreign, visible } from "./visible.js";

/** Texts up to this length, in one line, stand without a block of their own. */
const INLINE = 80;
/** The rest of a longer name stands below the arguments. */
const MAX_NAME = 120;
/** Changes that are longer together are folded. */
const MAX_CHANGES = 300;

const KINDS = {
  tool: "Tool call",
  shell: "Shell command",
  shell_magic: "Shell cell",
  resource: "Resource request",
  change: "Setup change",
  elicitation: "Question from an MCP server",
};

const HINTS = [
  ["readOnlyHint", "read-only", "changes things"],
  ["destructiveHint", "may destroy things", "destroys nothing"],
  ["idempotentHint", "no further effect if repeated", "repeating it has further effects"],
  ["openWorldHint", "outside access", "no outside access"],
];

const RESULTS = {
  allowed: "Allowed",
  edited: "Allowed with edits",
  denied: "Denied",
  approval_timeout: "Expired",
  approval_unavailable: "Refused",
  cancelled: "Withdrawn",
  settled: "Decided by your other answer",
  answered: "Answered",
  declined: "Declined",
  dismissed: "Dismissed",
};

/** How a call ended; other errors have the names that code sees. */
const ENDINGS = {
  ok: "succeeded",
  tool_error: "the tool failed",
  tool_timeout: "timed out",
  approval_rejected: "refused",
  cancelled: "cancelled",
  server_died: "the server ended",
  server_unreachable: "the server cannot be reached",
  login_required: "a login is missing",
  outcome_unknown: "outcome unknown",
};

const SCOPES = {
  cell: "for this cell",
  session: "for this session",
  always: "always",
};

/** Whether it is about a shell command. */
export function isShell({ kind }) {
  return kind === "shell" || kind === "shell_magic";
}

/** Whether it is about ipybox's setup, rather than a call of executed code. */
export function isChange({ kind }) {
  return kind === "change";
}

/** Whether a server asks, rather than code making a call. */
export function isQuestion({ kind }) {
  return kind === "elicitation";
}

/** A request's name in one line, as plain text for announcements. */
export function nameOf(request) {
  if (isQuestion(request)) return `${request.server_name} asks`;
  return isShell(request) ? KINDS[request.kind] : `${request.server_name}.${request.tool_name}`;
}

/** A request's name in one line. */
export function nameView(request) {
  if (isShell(request)) return el("span", {}, KINDS[request.kind]);
  if (isQuestion(request)) {
    return el("span", {}, foreign(request.server_name, { class: "tool" }), " asks");
  }
  const { tool_name: name } = request;
  const tool = foreign(name.slice(0, MAX_NAME), { class: "tool" });
  const rest = name.length > MAX_NAME ? [`… (${count(name.length, "character")})`] : [];
  return el("span", {}, foreign(request.server_name), ".", tool, ...rest);
}

/** How a request ended, in a word or two. */
export function resultText({ result }) {
  return RESULTS[result];
}

/** How the call of a decided request ended, in a word or two; empty if unknown. */
export function endingText({ kind, call_id: callId }, { result, ending }) {
  if (ending !== undefined) {
    const { status, durationMs } = ending;
    return `${ENDINGS[status] ?? `failed (${status})`} after ${durationText(durationMs)}`;
  }
  const isSent = result === "allowed" || result === "edited" || result === "settled";
  return isSent && callId !== undefined && (kind === "tool" || kind === "resource")
    ? "not ended yet"
    : "";
}

function durationText(ms) {
  return ms < 1000 ? `${Math.max(Math.round(ms), 0)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** A time of day, with the date unless it is today. */
export function timeView(at) {
  const date = new Date(at);
  const isToday = date.toDateString() === new Date().toDateString();
  const text = date.toLocaleString([], {
    ...(isToday ? {} : { day: "numeric", month: "short" }),
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  });
  return el("time", { datetime: date.toISOString() }, text);
}

/**
 * Shows everything known about a request.
 *
 * @param request The request.
 * @param outcome How it ended, if it has.
 * @returns Elements.
 */
export function requestView(request, outcome) {
  return [
    el(
      "p",
      { class: "kind" },
      KINDS[request.kind],
      " · asked at ",
      timeView(request.asked_at),
    ),
    el("h2", { id: "request-title", tabindex: "-1" }, nameView(request)),
    ...(outcome === undefined ? [] : [outcomeView(request, outcome)]),
    ...(request.changes?.length > 0 ? [changesView(request.changes)] : []),
    ...(isQuestion(request) ? [messageView(request.question)] : [
      el(
        "section",
        { id: "arguments", class: "card", "aria-label": "Arguments" },
        el("span", { class: "beginning" }),
        argumentsOf(request),
      ),
      facts(request),
    ]),
  ];
}

function outcomeView(request, outcome) {
  const { result, reason, remember, endedAt } = outcome;
  const calls = remember?.match === "pattern"
    ? foreign(request.pattern)
    : remember?.match === "tool"
    ? "all its arguments"
    : "these arguments";
  const long = remember === undefined ? [] : [` ${SCOPES[remember.scope]}, for `, calls];
  const children = [
    el(
      "p",
      {},
      el("strong", { "data-result": result }, resultText(outcome)),
      ...long,
      " at ",
      timeView(endedAt),
    ),
    el("p", { id: "ending" }, endingLine(request, outcome)),
  ];
  if (reason !== undefined) children.push(el("p", {}, "Reason: ", foreign(reason)));
  if (outcome.arguments !== undefined) {
    children.push(
      el("p", {}, "Sent instead of the arguments below:"),
      argumentsView(outcome.arguments.entries),
    );
  }
  return el("section", { class: "card outcome", "aria-label": "Outcome" }, ...children);
}

/** Shows how the call of the request in view has ended. */
export function updateEnding(request, outcome) {
  byId("ending")?.replaceChildren(endingLine(request, outcome));
}

function endingLine(request, outcome) {
  const text = endingText(request, outcome);
  return text === "" ? "" : `The call: ${text}`;
}

function changesView(changes) {
  const list = () => el("ul", {}, ...changes.map((change) => el("li", {}, foreign(change))));
  // The call below stays in view.
  const isLong = changes.join("\n").length > MAX_CHANGES;
  return el(
    "section",
    { class: "card changes", "aria-label": "Changes" },
    el("h3", {}, "Changed since it was allowed"),
    isLong ? folded(count(changes.length, "change"), list) : list(),
  );
}

/** A server's question. Its text stands apart from ipybox's own. */
function messageView({ message, url }) {
  const parts = [
    note("In the server's words, not verified:"),
    el("blockquote", {}, foreignView(message)),
  ];
  if (url !== undefined) {
    const { host } = new URL(url);
    parts.push(el("p", {}, "It wants you to open this address, at ", foreign(host), ":"));
    parts.push(el("blockquote", {}, codeView(url)));
  }
  return el("section", { id: "message", class: "card", "aria-label": "Question" }, ...parts);
}

function argumentsOf(request) {
  const { entries } = request.tool_args;
  return isShell(request) ? shellView(entries) : argumentsView(entries);
}

/** A command is shown as such; other arguments are listed below. */
function shellView(entries) {
  const [, cmd] = entries.find(([name]) => name === "cmd") ?? [];
  if (typeof cmd !== "string") return argumentsView(entries);
  const others = entries.filter(([name]) => name !== "cmd");
  return el(
    "div",
    {},
    blockView(cmd, { code: true }),
    ...(others.length === 0 ? [] : [argumentsView(others)]),
  );
}

function facts(request) {
  const list = el("dl", { class: "facts" });
  const add = (name, ...value) => list.append(el("dt", {}, name), el("dd", {}, ...value));
  if (request.source !== undefined) {
    const { line, text, names = [] } = request.source;
    add("Called by", `line ${line}: `, codeView(text), note(" (the code says)"));
    if (names.length > 0) {
      add("This code names", codeView(names.join(", ")), note(" (it may call others)"));
    }
    const code = request.source.code?.replace(/\n$/, "") ?? "";
    if (code.includes("\n")) {
      const lines = count(code.split("\n").length, "line");
      const whole = folded(lines, () => blockView(code, { code: true }));
      add("The whole code", whole);
    }
  }
  if (!isShell(request) && !isChange(request)) add("Server", foreign(request.server_name));
  if (request.server_launch !== undefined) {
    add("Started by", codeView(request.server_launch));
  }
  if (request.tool_name.length > MAX_NAME) add("Its whole name", foreignView(request.tool_name));
  const title = request.title ?? request.annotations?.title;
  if (title !== undefined) add("Its title", foreignView(title));
  const hints = hintsOf(request.annotations);
  if (hints.length > 0) {
    add(
      "The server says",
      hints.join(", "),
      note(" (claimed by the server, not verified)"),
    );
  }
  if (request.description !== undefined && request.description !== "") {
    add(
      isChange(request) ? "What it does" : "Its description",
      foreignView(request.description),
    );
  }
  return list;
}

/** Untrusted code in one line. */
function codeView(text) {
  return el("code", { class: "foreign", dir: "ltr" }, visible(text, { code: true }));
}

/** An untrusted text: in a block of its own, unless it is short. */
export function foreignView(text) {
  return text.length > INLINE || text.includes("\n") ? blockView(text) : foreign(text);
}

function note(text) {
  return el("span", { class: "note" }, text);
}

function hintsOf(annotations = {}) {
  return HINTS.flatMap(([name, yes, no]) => {
    if (annotations[name] === true) return [yes];
    return annotations[name] === false ? [no] : [];
  });
}
