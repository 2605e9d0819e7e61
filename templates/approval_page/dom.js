/**
 * Creates elements. Text never becomes HTML.
 *
 * @module
 */

/**
 * Creates an element.
 *
 * @param tag Its name.
 * @param properties Attributes, and listeners as `onclick` and so on; `undefined` and `false` are left out.
 * @param children Nodes and texts.
 * @returns The element.
 */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...children);
  return element;
}

/** The element with this id. */
export function byId(id) {
  return document.getElementById(id);
}

/** Acts when Ctrl+Enter, or Command+Enter, is pressed in an element. */
export function onCtrlEnter(element, act) {
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.repeat) return;
    event.preventDefault();
    act();
  });
}

/** A number for people. */
export function number(value) {
  return value.toLocaleString("en").replaceAll(",", "\u202f");
}

/** A number of things. */
export function count(value, singular, plural = `${singular}s`) {
  return `${number(value)} ${value === 1 ? singular : plural}`;
}
