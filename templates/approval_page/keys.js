/**
 * The keys of the page: the same as at the terminal. Inside fields, all but Escape is text.
 *
 * @param actions `{ move(step), allow(), deny(), explain(), edit(), remember(scope), unfold(), help(),
 * cancel(), open(), leave(target) }`.
 */
export function listenToKeys(actions) {
  const keys = new Map([
    ["j", () => actions.move(1)],
    ["ArrowDown", () => actions.move(1)],
    ["k", () => actions.move(-1)],
    ["ArrowUp", () => actions.move(-1)],
    ["y", actions.allow],
    ["n", actions.deny],
    ["x", actions.cancel],
    ["o", actions.open],
    ["r", actions.explain],
    ["e", actions.edit],
    ["c", () => actions.remember("cell")],
    ["s", () => actions.remember("session")],
    ["a", () => actions.remember("always")],
    ["d", actions.unfold],
    ["?", actions.help],
  ]);
  document.addEventListener("keydown", (event) => {
    const { key, target } = event;
    if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey) return;
    if (target.closest("dialog")) return;
    if (key === "Escape") return actions.leave(target);
    if (target.closest("input, textarea, select")) return;
    // Arrows scroll a block of text that has the focus.
    if (key.startsWith("Arrow") && target.closest(".block")) return;
    const act = keys.get(key);
    if (act === undefined) return;
    event.preventDefault(); // so that the key is not typed into the field that gets the focus
    if (!event.repeat || key === "j" || key === "k" || key.startsWith("Arrow")) act();
  });
}
