/**
 * The form for answering a question of an MCP server.
 *
 * @module
 */
import { el, number, onCtrlEnter } from "./dom.js";
import { GuardedForm, label } from "./guard.js";
import { foreignView } from "./request.js";
import { foreign, isPlain } from "./visible.js";

/** Answers the question in view. */
export class QuestionForm extends GuardedForm {
  #accept = this.button("allow", "primary", "y", () => this.allow());
  #decline = this.button("deny", "danger", "n", () => this.deny());
  #cancel = this.button("cancel", "quiet", "x", () => this.cancel());
  #open = this.button("open", "quiet", "o", () => this.open());
  #fields = [];
  #card = el("section", { class: "card fields", "aria-label": "Answer" });

  /** @param send Sends an answer: `(id, body) => Promise<{ fate } | { error }>`. */
  constructor(send) {
    super(send, "Answer to a server", "fields");
    this.element.append(
      el("div", { class: "buttons" }, this.#open, this.#accept, this.#decline, this.#cancel),
    );
    this.element.addEventListener("submit", (event) => event.preventDefault());
    onCtrlEnter(this.#card, () => this.allow());
    label(this.#decline, "Decline");
    label(this.#cancel, "Dismiss");
    label(this.#open, "Open in a new tab");
    this.update();
  }

  get elements() {
    return this.#fields.length === 0 ? [this.element] : [this.#card, this.element];
  }

  show(request) {
    const { question, server_name } = request;
    this.#fields = (question.fields ?? []).map(fieldOf);
    const note = el("p", { class: "note" }, foreign(server_name), " receives what you enter here.");
    this.#card.replaceChildren(
      el("span", { class: "beginning" }),
      note,
      ...this.#fields.map(({ element }) => element),
    );
    this.#open.hidden = question.kind !== "url";
    label(this.#accept, question.kind === "url" ? "I opened it" : "Send answer");
    super.show(request);
  }

  allow() {
    if (this.request?.question.kind === "url") return this.agree('{"action":"accept"}');
    const content = Object.fromEntries(
      this.#fields.map(({ name, value }) => [name, value()]).filter(([, value]) =>
        value !== undefined
      ),
    );
    return this.agree(JSON.stringify({ action: "accept", content }));
  }

  deny() {
    return this.answer('{"action":"decline"}');
  }

  cancel() {
    return this.answer('{"action":"cancel"}');
  }

  /** Opens the web address, without revealing where it was opened. */
  open() {
    const { url } = this.request?.question ?? {};
    if (this.usable && url !== undefined) globalThis.open(url, "_blank", "noopener,noreferrer");
  }

  /** Focuses the first field. */
  edit() {
    this.#card.querySelector("input, textarea")?.focus();
  }

  holds(target) {
    return this.element.contains(target) || this.#card.contains(target);
  }

  update() {
    this.#accept.disabled = !this.allowable;
    for (const button of [this.#decline, this.#cancel, this.#open]) {
      button.disabled = !this.usable;
    }
  }
}

/** Creates a field, with its name in the answer and its content: `undefined` if empty. */
function fieldOf(field, at) {
  const { name } = field;
  switch (field.type) {
    case "text":
    case "number":
    case "integer":
      return { name, ...textField(field, `field-${at}`) };
    case "boolean": {
      const options = [{ value: true, title: "Yes" }, { value: false, title: "No" }];
      return { name, ...choiceField({ ...field, options, ours: true }, `field-${at}`) };
    }
    case "choice":
      return { name, ...choiceField(field, `field-${at}`) };
    case "choices":
      return { name, ...choiceField({ ...field, many: true }, `field-${at}`) };
  }
}

function textField(field, id) {
  const given = field.default === undefined ? "" : String(field.default);
  // A text that a field cannot show as it is must not be sent by accident.
  const isShown = isPlain(given);
  const properties = {
    id,
    class: "answer",
    dir: "auto",
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    "aria-required": field.required,
    "aria-describedby": `${id}-about problem`,
  };
  const input = given.includes("\n") && isShown
    ? el("textarea", { ...properties, rows: Math.min(given.split("\n").length + 1, 12) })
    : el("input", { ...properties, inputmode: field.type === "text" ? undefined : "decimal" });
  if (isShown) input.value = given;
  const element = el(
    "div",
    { class: "field" },
    el("label", { for: id }, ...titleOf(field)),
    aboutOf(field, id, isShown ? undefined : given),
    input,
  );
  const isText = field.type === "text";
  const value = () => {
    if (input.value === "") return undefined;
    const typed = isText ? input.value : Number(input.value);
    return Number.isNaN(typed) ? input.value : typed; // ipybox says what is wrong with it
  };
  return { element, value };
}

/** Options one below the other: unlike a menu's, their titles can contain marks. */
function choiceField(field, id) {
  const { options, many = false, ours = false, required } = field;
  const chosen = field.default === undefined ? [] : [field.default].flat();
  const choices = options.map(({ value, title }) => ({
    value,
    input: el("input", {
      type: many ? "checkbox" : "radio",
      name: id,
      checked: chosen.includes(value),
    }),
    title: ours ? title : foreign(title),
  }));
  if (!many && !required) {
    const input = el("input", { type: "radio", name: id, checked: chosen.length === 0 });
    choices.push({ value: undefined, input, title: el("span", { class: "note" }, "No answer") });
  }
  const element = el(
    "fieldset",
    { class: "field", "aria-describedby": `${id}-about problem` },
    el("legend", {}, ...titleOf(field)),
    aboutOf(field, id),
    el(
      "div",
      { class: "options" },
      ...choices.map(({ input, title }) => el("label", {}, input, el("span", {}, title))),
    ),
  );
  const value = () => {
    const values = choices.filter(({ input }) => input.checked).map(({ value }) => value);
    if (!many) return values[0];
    return values.length === 0 && !required ? undefined : values;
  };
  return { element, value };
}

function titleOf({ title, required }) {
  const need = required ? " (required)" : " (optional)";
  return [foreign(title), el("span", { class: "note" }, need)];
}

/** The server's description of a field, its limits, and a suggestion that the field cannot show. */
function aboutOf(field, id, suggested) {
  const about = el("div", { id: `${id}-about`, class: "about" });
  const { description } = field;
  if (description !== undefined && description !== "") {
    about.append(foreignView(description));
  }
  const hint = hintOf(field);
  if (hint !== "") about.append(el("p", { class: "note" }, hint));
  if (suggested !== undefined) {
    about.append(el("p", { class: "note" }, "It suggests: ", foreign(suggested)));
  }
  return about;
}

const FORMATS = {
  email: "an email address",
  uri: "an address, such as https://example.org",
  date: "a date, such as 2026-01-31",
  "date-time": "a date and time, such as 2026-01-31T12:00",
};

function hintOf(field) {
  switch (field.type) {
    case "text": {
      const length = span(field.minLength || undefined, field.maxLength, " characters");
      return [FORMATS[field.format] ?? "", length].filter((part) => part !== "").join(", ");
    }
    case "number":
      return `a number ${span(field.minimum, field.maximum)}`.trim();
    case "integer":
      return `a whole number ${span(field.minimum, field.maximum)}`.trim();
    case "choices":
      return `any of them ${span(field.minItems || undefined, field.maxItems)}`.trim();
    default:
      return "";
  }
}

function span(least, most, unit = "") {
  if (least === undefined && most === undefined) return "";
  if (most === undefined) return `at least ${number(least)}${unit}`;
  if (least === undefined) return `at most ${number(most)}${unit}`;
  return `${number(least)} to ${number(most)}${unit}`;
}
