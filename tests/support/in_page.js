/**
 * What tests do inside a page. Each function is sent there by its text, and uses nothing around it.
 *
 * @module
 */

/**
 * What sticks out of the window, is cut, too small for a finger, or overlaps its neighbours.
 *
 * @returns {string[]} Each fault in words.
 */
export function layoutFaults() {
  const wrong = [];
  const name = (element) =>
    `${element.tagName}#${element.id}.${element.className} “${element.textContent?.slice(0, 30)}”`;
  const visible = [...document.querySelectorAll("body *")].filter((element) =>
    element.checkVisibility() && !element.closest(".unseen, dialog")
  );
  if (document.documentElement.scrollWidth > innerWidth) wrong.push("the page scrolls sideways");
  for (const element of visible) {
    const { overflowX, textOverflow } = getComputedStyle(element);
    const scrolls = overflowX === "auto" || overflowX === "scroll" || textOverflow === "ellipsis";
    const inside = element.parentElement?.closest(".card, .list .below, .list .name");
    const { left, right } = element.getBoundingClientRect();
    if (inside === null && (left < 0 || right > innerWidth + 0.5)) {
      wrong.push(`out: ${name(element)}`);
    }
    if (
      !scrolls && element.clientWidth > 0 && element.scrollWidth > element.clientWidth + 1 &&
      inside === null
    ) {
      wrong.push(`cut: ${name(element)}`);
    }
  }
  const controls = visible.filter((element) => element.matches("button, input, select, textarea"));
  for (const control of controls) {
    // What is checked is checked by its label, too.
    const target = control.matches("[type=radio], [type=checkbox]")
      ? control.closest("label")
      : control;
    const { height, width } = target.getBoundingClientRect();
    if (height < 44 || width < 44) wrong.push(`small: ${name(control)} ${width}×${height}`);
    // What these show has no size of its own that could be asked for.
    const style = getComputedStyle(control);
    const arrow = control.matches("select") ? 20 : 0;
    const room = width - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - arrow;
    const context = document.createElement("canvas").getContext("2d");
    context.font = style.font;
    for (const text of [control.placeholder, ...[...control.options ?? []].map((o) => o.text)]) {
      if (context.measureText(text ?? "").width > room) wrong.push(`cut: ${name(control)} ${text}`);
    }
  }
  // What stands in the flow: the decision may lie over what is scrolled below it.
  const parts = visible.filter((element) =>
    element.matches(".top > *, .columns > *, #detail > *, #decision *, .list > *, dt, dd") &&
    getComputedStyle(element).position !== "sticky"
  );
  for (const siblings of Map.groupBy(parts, (element) => element.parentElement).values()) {
    for (const [at, one] of siblings.entries()) {
      const a = one.getBoundingClientRect();
      // The rest are further down; comparing all of thousands with each other takes long.
      for (const other of siblings.slice(at + 1, at + 20)) {
        const b = other.getBoundingClientRect();
        const overlap = Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
          Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
        if (overlap) wrong.push(`overlap: ${name(one)} and ${name(other)}`);
      }
    }
  }
  return wrong;
}

/**
 * What has the focus.
 *
 * @returns {string | undefined} Its id.
 */
export function focusedId() {
  return document.activeElement?.id;
}

/** Presses the button as scripts and assistive programs do. */
export function clickAllow() {
  document.getElementById("allow").click();
}

/**
 * Scrolls so that an element is at the top of the window.
 *
 * @param {Element} element Which one.
 */
export function scrollToTop(element) {
  element.scrollIntoView();
}

/** Tells the page that it can be seen again. */
export function comeIntoView() {
  document.dispatchEvent(new Event("visibilitychange"));
}

/**
 * The colour behind everything.
 *
 * @returns {string} It.
 */
export function paperColor() {
  return getComputedStyle(document.documentElement).backgroundColor;
}

/** For connections that a test can cut: an init script. */
export function makeConnectionsBreakable() {
  const { WebSocket } = globalThis;
  globalThis.connections = new Set();
  globalThis.offline = false;
  globalThis.WebSocket = class extends WebSocket {
    constructor(url) {
      super(globalThis.offline ? "ws://127.0.0.1:1" : url); // nothing listens there
      globalThis.connections.add(this);
    }
  };
}

/** Cuts the connections, and lets none be made. */
export function goOffline() {
  globalThis.offline = true;
  for (const connection of globalThis.connections) connection.close();
}

/** Lets connections be made. */
export function goOnline() {
  globalThis.offline = false;
}

/** Opens all that is folded, and waits until what was inside is open, too. */
export async function unfoldAll() {
  for (;;) {
    const closed = document.querySelectorAll("#arguments details:not([open])");
    if (closed.length === 0) return;
    for (const details of closed) {
      const opened = new Promise((resolve) =>
        details.addEventListener("toggle", resolve, { once: true })
      );
      details.open = true;
      await opened;
    }
  }
}

/**
 * All that a page of another origin can try with an approval page whose address it knows.
 *
 * @param {{ page: string, target: string, body: string }} victim The page, and where a request is decided.
 * @returns {Promise<Record<string, string>>} What came of each attempt.
 */
export async function attackFrom({ page, target, body }) {
  const attempt = (request) => request.then(({ type }) => type, () => "failed");
  const event = (source, good, bad) =>
    new Promise((resolve) => {
      source.addEventListener(good, () => resolve("worked"));
      source.addEventListener(bad, () => resolve("failed"));
    });
  const headers = { "content-type": "application/json", "x-ipybox-page": "1" };
  const script = document.createElement("script");
  script.src = new URL("main.js", page);
  const scripted = event(script, "load", "error");
  const frame = document.createElement("iframe");
  frame.src = page;
  const framed = new Promise((resolve) => frame.addEventListener("load", resolve));
  document.body.append(script, frame);
  await framed;
  const socket = event(
    new WebSocket(new URL("live", page).href.replace("http", "ws")),
    "open",
    "error",
  );
  const source = new EventSource(new URL("live", page), { withCredentials: true });
  const events = event(source, "open", "error");
  const opened = open(page);
  const outcome = {
    fetched: await attempt(
      fetch(target, { method: "POST", credentials: "include", headers, body }),
    ),
    simple: await attempt(
      fetch(target, { method: "POST", mode: "no-cors", credentials: "include", body }),
    ),
    read: await attempt(fetch(page, { credentials: "include" })),
    script: await scripted,
    socket: await socket,
    events: await events,
    frame: frame.contentDocument === null && frame.contentWindow.length === 0 ? "empty" : "framed",
    opener: "reached",
  };
  source.close();
  // The other side's policy takes the window away from whoever opened it.
  for (let tries = 0; tries < 200 && !opened.closed; tries++) {
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  if (opened.closed) outcome.opener = "severed";
  return outcome;
}

/**
 * What stands in fields.
 *
 * @param {HTMLTextAreaElement[]} fields The fields.
 * @returns {string[]} Their texts.
 */
export function valuesOf(fields) {
  return fields.map(({ value }) => value);
}

/**
 * Which texts the page shows without a mark where they stand in code.
 *
 * @param {string[]} texts The texts.
 * @returns {Promise<string[]>} Those without one.
 */
export async function unmarkedInCode(texts) {
  const { visible } = await import(new URL("visible.js", location.href).href);
  return texts.filter((text) =>
    visible(`a.txt${text}, b`, { code: true }).querySelector(".mark") === null
  );
}

/** Keeps notifications instead of showing them, and allows them: no browser without a window has any. */
export function recordNotifications() {
  globalThis.shown = [];
  globalThis.Notification = class {
    static requestPermission() {
      return Promise.resolve("granted");
    }

    constructor(title, { body }) {
      globalThis.shown.push(`${title}: ${body}`);
    }
  };
}

/**
 * The notifications that were kept.
 *
 * @returns {string[]} Their titles and texts.
 */
export function notifications() {
  return globalThis.shown;
}

/** Lets the page believe that it is in the background. */
export function loseFocus() {
  document.hasFocus = () => false;
}

/**
 * Shows one time of the day wherever the page shows any.
 *
 * @param {string} time The time.
 */
export function showTime(time) {
  for (const element of document.querySelectorAll("time")) element.textContent = time;
}

/**
 * The texts of a picture that are shown at a time of its animation, where it has one.
 *
 * @param {number | null} seconds The time; `null` leaves it as it is.
 * @returns {string[]} The texts.
 */
export function textsAt(seconds) {
  for (const animation of document.getAnimations()) {
    animation.pause();
    animation.currentTime = seconds * 1000;
  }
  return [...document.querySelectorAll("g > text")]
    .filter((text) => getComputedStyle(text.parentNode).opacity === "1")
    .map((text) => text.textContent);
}
