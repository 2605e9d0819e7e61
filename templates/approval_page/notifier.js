/**
 * Shows notifications of requests while the page is in the background, if the person asked for that.
 *
 * @module
 */
import { byId } from "./dom.js";
import { nameOf } from "./request.js";
import { visible } from "./visible.js";

/** The most characters of a name that others chose. */
const MAX_NAME = 120;

export class Notifier {
  #button = byId("notify");
  #isOn = false;

  constructor() {
    this.#button.hidden = !("Notification" in globalThis);
    this.#button.addEventListener("click", () => this.#toggle());
  }

  /** Announces a request without its arguments: notifications show on locked screens, too. */
  notify(request) {
    if (!this.#isOn || document.hasFocus()) return;
    const body = visible(nameOf(request).slice(0, MAX_NAME)).textContent;
    const notification = new Notification("A request waits for your decision", {
      body,
      icon: "icon.svg",
    });
    notification.onclick = () => {
      globalThis.focus();
      notification.close();
    };
  }

  async #toggle() {
    const permission = this.#isOn ? "off" : await Notification.requestPermission();
    this.#isOn = permission === "granted";
    this.#button.setAttribute("aria-pressed", String(this.#isOn));
    this.#button.textContent = this.#isOn
      ? "Notifications on"
      : permission === "denied"
      ? "Notifications blocked"
      : "Notify me";
  }
}
