/**
 * The approval page: its view, and the updates from ipybox's messages.
 *
 * @module
 */
import { Board } from "./board.js";
import { DecisionForm } from "./decision.js";
import { byId, count, el } from "./dom.js";
import { listenToKeys } from "./keys.js";
import { showLists } from "./lists.js";
import { Notifier } from "./notifier.js";
import { QuestionForm } from "./question.js";
import { isQuestion, nameOf, requestView, resultText, updateEnding } from "./request.js";
import { foreign } from "./visible.js";

const STATES = {
  connecting: "Connecting …",
  open: "Connected",
  lost: "Connection lost, trying again …",
  ended: "ipybox has stopped",
  closed: "This page has expired. Open the newest link in ipybox's log",
};

const detail = byId("detail");
let selected;
/**
 * Whether the request in view stays: a person chose it, or it ended before they decided it here.
 */
let stays = false;
let shown;

const notifier = new Notifier();
const board = new Board(onChange);
/** The requests that this page decided, or is about to decide. */
const decided = new Set();
const forms = [new DecisionForm(decide), new QuestionForm(decide)];
/** The form of the request in view. */
let [form] = forms;

listenToKeys({
  move,
  allow: () => form.allow(),
  deny: () => form.deny(),
  cancel: () => form.cancel?.(),
  open: () => form.open?.(),
  explain: () => form.explain?.(),
  edit: () => form.edit(),
  remember: (scope) => form.remember?.(scope),
  unfold,
  help: showHelp,
  leave: (target) => form.leave(target),
});
byId("help-button").addEventListener("click", showHelp);

function onChange({ type, id }) {
  if (type === "asked") {
    const { request } = board.find(id);
    announce(`New request: ${nameOf(request)}`);
  }
  if (type === "settled") announceOutcome(board.find(id));
  const found = board.find(selected);
  // Code can withdraw a request at any time: another one in its place would get the click for it.
  const isOver = found?.outcome !== undefined && found.outcome.result !== "settled";
  if (isOver && !decided.has(selected)) stays = true;
  if (!isPending(selected) && !(stays && found !== undefined)) selectNext();
  show(type === "settled");
  if (type === "asked") notifier.notify(board.find(id).request);
  if (type === "ended" && id === selected) updateEnding(found.request, found.outcome);
  if (type === "settled" && id === selected && stays) detail.append(endedView());
}

async function decide(id, body) {
  decided.add(id);
  const answer = await board.decide(id, body);
  if (answer.fate !== "counted") decided.delete(id);
  return answer;
}

/** Selects the oldest waiting request. Without one, the decided request stays in view. */
function selectNext() {
  const [next] = board.pending.keys();
  if (next !== undefined) selected = next;
  stays = false;
}

function select(id) {
  selected = id;
  stays = !isPending(id);
  show(true);
}

function move(step) {
  const ids = [...board.pending.keys(), ...board.settled.map(({ outcome }) => outcome.id)];
  if (ids.length === 0) return;
  const at = ids.indexOf(selected);
  select(ids[at === -1 ? 0 : Math.min(Math.max(at + step, 0), ids.length - 1)]);
  document.querySelector('[aria-current="true"]')?.scrollIntoView({ block: "nearest" });
}

function isPending(id) {
  return board.pending.has(id);
}

function show(focus) {
  const waiting = board.pending.size;
  document.title = waiting === 0 ? "ipybox approvals" : `(${waiting}) ipybox approvals`;
  const status = byId("status");
  if (status.dataset.state !== board.state) {
    status.dataset.state = board.state;
    status.textContent = STATES[board.state];
  }
  const { workspace } = board;
  byId("workspace").replaceChildren(...(workspace === null ? [] : ["in ", foreign(workspace)]));
  for (const each of forms) each.connected = board.state === "open";
  showLists(board, selected, select);
  const found = board.find(selected);
  const key = `${selected} ${found?.outcome === undefined}`;
  if (key === shown) return;
  shown = key;
  showDetail(found, focus);
}

function showDetail(found, focus) {
  form.hide();
  if (found === undefined) {
    detail.replaceChildren(emptyView());
    return;
  }
  const { request, outcome } = found;
  detail.replaceChildren(...requestView(request, outcome));
  if (outcome === undefined) {
    form = forms[isQuestion(request) ? 1 : 0];
    form.show(request);
    detail.append(...form.elements);
  }
  detail.scrollTop = 0;
  if (focus) byId("request-title").focus({ preventScroll: true });
}

function emptyView() {
  return el(
    "div",
    { class: "empty" },
    el("h2", {}, "Nothing is waiting for you"),
    el("p", {}, "Calls that need your decision appear here as they come."),
  );
}

function endedView() {
  const text = "It ended without your decision here. Choose the next request in the list.";
  return el("p", { class: "note" }, text);
}

function announceOutcome({ request, outcome }) {
  const left = count(board.pending.size, "request waits", "requests wait");
  announce(`${resultText(outcome)}: ${nameOf(request)}. ${left}`);
}

function announce(text) {
  byId("news").textContent = text;
}

/** Opens the folded parts in view. */
function unfold() {
  for (const details of detail.querySelectorAll("details")) details.open = true;
}

function showHelp() {
  byId("help").showModal();
}

show(false);
