/**
 * The lists of waiting and of decided requests.
 *
 * @module
 */
import { byId, count, el } from "./dom.js";
import { endingText, nameView, resultText, timeView } from "./request.js";
import { foreign } from "./visible.js";

/**
 * Shows both lists.
 *
 * @param board The requests.
 * @param selected The id of the request in view.
 * @param onSelect Called with the id of the chosen request.
 */
export function showLists(board, selected, onSelect) {
  const { pending, settled, dropped } = board;
  byId("pending-count").textContent = String(pending.size);
  byId("settled-count").textContent = String(settled.length);
  fill(byId("pending"), [...pending.values()].map((request) => ({ request })), selected, onSelect);
  fill(byId("settled"), settled, selected, onSelect);
  const note = byId("dropped");
  note.hidden = dropped === 0;
  note.textContent = `${count(dropped, "older decision")} in the audit log only`;
  showElsewhere(board);
}

/** Lists the calls that wait in other sessions, which cannot be decided here. */
function showElsewhere({ elsewhere, hasMoreElsewhere }) {
  byId("elsewhere").hidden = elsewhere.length === 0;
  byId("elsewhere-more").hidden = !hasMoreElsewhere;
  byId("elsewhere-list").replaceChildren(...elsewhere.map(elsewhereView));
}

function elsewhereView(call) {
  const { session, name, asked_at: since, is_attached: isAttached } = call;
  const where = name === undefined ? session : `${name} (${session})`;
  const how = isAttached
    ? ["Decide it with the program that has this session: on its page or where it asks you"]
    : [
      "Nobody can decide it now. Continue the session: ",
      el("code", {}, `ipybox attach ${session}`),
    ];
  return el(
    "li",
    {},
    el("span", { class: "name" }, nameView(call)),
    el("span", { class: "below" }, "since ", timeView(since), " in session ", where),
    el("span", {}, ...how),
  );
}

/** Reuses existing elements: an element that is replaced loses the focus. */
function fill(list, entries, selected, onSelect) {
  const known = new Map([...list.children].map((item) => [item.dataset.id, item]));
  const items = entries.map(({ request, outcome }) => {
    const item = known.get(request.id) ?? itemView(request, outcome, onSelect);
    const button = item.firstElementChild;
    const ending = item.querySelector(".ending");
    if (ending !== null) ending.textContent = endingText(request, outcome);
    if (request.id === selected) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
    return item;
  });
  const wanted = new Set(items);
  for (const item of known.values()) if (!wanted.has(item)) item.remove();
  items.forEach((item, at) => {
    if (list.children[at] !== item) list.insertBefore(item, list.children[at] ?? null);
  });
}

function itemView(request, outcome, onSelect) {
  const excerptView = foreign(outcome?.excerpt ?? request.excerpt, { class: "excerpt" });
  const below = outcome === undefined ? [timeView(request.asked_at), " ", excerptView] : [
    el("span", { "data-result": outcome.result }, resultText(outcome)),
    " ",
    timeView(outcome.endedAt),
    " ",
    el("span", { class: "ending" }),
  ];
  const button = el(
    "button",
    { type: "button", onclick: () => onSelect(request.id) },
    el("span", { class: "name" }, nameView(request)),
    el("span", { class: "below" }, ...below),
    outcome === undefined ? "" : el("span", { class: "below" }, excerptView),
  );
  const item = el("li", {}, button);
  item.dataset.id = request.id;
  return item;
}
