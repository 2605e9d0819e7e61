import { byId, el } from "./dom.js";
import { visible } from "./visible.js";

/** How long a request must have been in view before it can be decided. */
const DELAY_MS = 500;
/** The least height to leave for a request, in pixels, if the buttons need more of the window. */
const LEAST_VIEW = 64;

/**
 * Keeps a request that has just come into view from being decided by a key or a click that was meant
 * for something else. Time in which the page cannot be seen does not count.
 */
export class Guard {
  #onChange;
  #timer;
  #waiting = false;
  ready = false;

  /** @param onChange Called when a request can be decided, and when it no longer can. */
  constructor(onChange) {
    this.#onChange = onChange;
    document.addEventListener("visibilitychange", () => {
      if (this.#waiting) this.arm();
    });
  }

  /** Call this when another request comes into view. */
  arm() {
    this.disarm();
    this.#waiting = true;
    if (document.visibilityState !== "visible") return;
    this.#timer = setTimeout(() => {
      this.ready = true;
      this.#onChange();
    }, DELAY_MS);
  }

  /** Call this when no request is in view. */
  disarm() {
    clearTimeout(this.#timer);
    this.#waiting = false;
    this.ready = false;
    this.#onChange();
  }
}

/** The common part of the forms for answering requests. */
export class GuardedForm {
  /** The form itself, which stays in sight. */
  element;
  /** The request in view. */
  request;

  #send;
  #guard = new Guard(() => {
    this.#look();
    this.update();
  });
  #connected = false;
  #busy = false;
  /** The button that was pressed while enabled; a click that began before does not count. */
  #pressed;
  #seen = false;
  #unseen = el("p", { class: "note", hidden: true });
  #problem = el("p", { id: "problem", class: "problem", role: "alert", hidden: true });

  /**
   * @param send Sends an answer: `(id, body) => Promise<{ fate } | { error }>`.
   * @param label The purpose of the form.
   * @param subject The subject of the decision.
   */
  constructor(send, label, subject) {
    this.#unseen.textContent = `Scroll to the ${subject} first.`;
    this.#send = send;
    this.element = el(
      "form",
      { id: "decision", class: "decision", "aria-label": label },
      this.#problem,
      this.#unseen,
    );
    for (const type of ["scroll", "resize", "toggle"]) {
      addEventListener(type, () => this.#look(), true);
    }
  }

  /** The elements below the request. */
  get elements() {
    return [this.element];
  }

  /** Shows another request, and forgets all choices for the previous one. */
  show(request) {
    this.request = request;
    this.#busy = false;
    this.report("");
    this.#seen = false;
    this.#unseen.hidden = true;
    this.#guard.arm();
  }

  /** Shows no request. */
  hide() {
    this.request = undefined;
    this.#guard.disarm();
  }

  /** Records that the request has been in view. */
  see() {
    this.#seen = true;
    this.#unseen.hidden = true;
    this.update();
  }

  /** Checks whether its beginning is in view, above the buttons. */
  #look() {
    if (this.#seen || !this.#guard.ready) return;
    const beginning = byId("detail").querySelector(".beginning")?.getBoundingClientRect();
    const end = Math.max(this.element.getBoundingClientRect().top, LEAST_VIEW);
    if (beginning === undefined || (beginning.top >= 0 && beginning.bottom <= end)) this.see();
    else this.#unseen.hidden = false;
  }

  /** Whether answers reach ipybox. */
  set connected(connected) {
    this.#connected = connected;
    this.update();
  }

  /** Whether the request in view can be answered. */
  get usable() {
    return this.#guard.ready && this.#connected && !this.#busy && this.request !== undefined;
  }

  /** Whether it can be allowed. */
  get allowable() {
    return this.usable && this.#seen;
  }

  /** Sends an answer that allows something. */
  async agree(body) {
    if (this.allowable) await this.answer(body);
  }

  /** Sends an answer, as JSON text. */
  async answer(body) {
    const { request } = this;
    if (!this.usable) return;
    this.#busy = true;
    this.update();
    const { fate, error } = await this.#send(request.id, body);
    // If it counted, the board shows it next.
    if (this.request !== request || fate === "counted") return;
    this.#busy = false;
    this.update();
    this.report(error ?? "It has already been decided or withdrawn.");
  }

  /** Shows a problem. */
  report(problem) {
    this.#problem.replaceChildren(visible(problem));
    this.#problem.hidden = problem === "";
  }

  /** Leaves a field. Its text stays: one key must not lose it. */
  leave(target) {
    if (this.holds(target)) byId("request-title")?.focus();
  }

  /** Creates a button that ignores clicks that began before it was enabled. */
  button(id, look, key, act) {
    const button = el("button", { id, type: "button", class: look });
    button.addEventListener(
      "pointerdown",
      () => this.#pressed = button.disabled ? undefined : button,
    );
    button.addEventListener("click", ({ detail }) => {
      const pressed = this.#pressed === button || detail === 0; // 0: by the keyboard
      this.#pressed = undefined;
      if (pressed) act();
    });
    button.dataset.key = key;
    return button;
  }
}

/** Writes a text, and the button's key, on a button. */
export function label(button, text) {
  const wanted = `${text}|${button.dataset.key}`;
  if (button.dataset.label === wanted) return;
  button.dataset.label = wanted;
  button.replaceChildren(text, " ", el("kbd", { "aria-hidden": "true" }, button.dataset.key));
}
