/**
 * The form by which a request is decided.
 *
 * @module
 */
import { openEditor } from "./arguments_editor.js";
import { byId, el } from "./dom.js";
import { Guard } from "./guard.js";
import { isChange, isShell } from "./request.js";

/** What stands behind "Allow" and "Deny". */
const SUFFIX = { once: "", cell: " · cell", session: " · session", always: " · always" };

const SCOPES = {
  once: "This call only",
  cell: "This cell",
  session: "This session",
  always: "Always",
};
const MATCHES = [["tool", "Any arguments"], ["arguments", "These arguments"]];
const SHELL_MATCHES = [["tool", "Any command"], ["arguments", "This command"]];

/** Decides the request in view. */
export class DecisionForm {
  /** The form, to be put below the request. */
  element;

  #send;
  #guard = new Guard(() => this.#update());
  #request;
  #connected = false;
  #busy = false;
  /** The button that was pressed while it could be; a click that began before does not count. */
  #pressed;
  #allow = this.#button("allow", "primary", "y", () => this.allow());
  #deny = this.#button("deny", "danger", "n", () => this.deny());
  #edit = this.#button("edit", "quiet", "e", () => this.#toggleEditor());
  #reason = el("input", {
    id: "reason",
    maxlength: 2000,
    autocomplete: "off",
    placeholder: "Reason, if you deny (optional)",
  });
  #scope = el("select", { id: "scope", "aria-label": "For how long" });
  #match = el("select", { id: "match", "aria-label": "For which calls" });
  #remember = el("div", { class: "remember" }, this.#scope, this.#match);
  #problem = el("p", { id: "problem", class: "problem", role: "alert", hidden: true });
  #editor;

  /** @param send Sends a decision: `(id, body) => Promise<{ fate } | { error }>`. */
  constructor(send) {
    this.#send = send;
    this.element = el(
      "form",
      { id: "decision", class: "decision", "aria-label": "Decision" },
      this.#problem,
      el("div", { class: "buttons" }, this.#allow, this.#deny, this.#edit),
      el("label", { class: "unseen", for: "reason" }, "Reason"),
      this.#reason,
      this.#remember,
    );
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.deny(); // Enter in the reason's field
    });
    this.#scope.addEventListener("change", () => this.#update());
    this.#update();
  }

  /** Another request is in view: all that was chosen for the one before is forgotten. */
  show(request) {
    this.#request = request;
    this.#busy = false;
    this.#editor = undefined;
    this.#reason.value = "";
    fill(this.#scope, ["once", ...request.scopes].map((scope) => [scope, SCOPES[scope]]));
    fill(this.#match, isShell(request) ? SHELL_MATCHES : MATCHES);
    this.#edit.hidden = isChange(request);
    this.#tell("");
    this.#guard.arm();
  }

  /** None is. */
  hide() {
    this.#request = undefined;
    this.#guard.disarm();
  }

  /** Whether decisions reach ipybox. */
  set connected(connected) {
    this.#connected = connected;
    this.#update();
  }

  allow() {
    const problem = this.#check();
    if (problem !== "") return this.#tell(problem);
    const edited = this.#editor?.changed ? `,"arguments":${this.#editor.json()}` : "";
    return this.#decide(`{"decision":"allow"${edited}${this.#remembered()}}`);
  }

  deny() {
    const reason = this.#reason.value.trim();
    const given = reason === "" ? "" : `,"reason":${JSON.stringify(reason)}`;
    return this.#decide(`{"decision":"deny"${given}${this.#remembered()}}`);
  }

  /** Goes to the field for the arguments. */
  edit() {
    if (this.#editor === undefined) this.#openEditor();
    else this.#editor.focus();
  }

  /** Goes to the field for the reason. */
  explain() {
    this.#reason.focus();
  }

  /** Chooses how long the decision counts, where that is offered, and goes to the choice of calls. */
  remember(scope) {
    if (!Array.from(this.#scope.options).some(({ value }) => value === scope)) return;
    this.#scope.value = scope;
    this.#update();
    this.#match.focus();
  }

  /** Leaves a field. Edits stay: one key must not lose what was typed. */
  leave(target) {
    const editing = this.#editor?.element.contains(target) ?? false;
    if (!editing && !this.element.contains(target)) return;
    if (editing && !this.#editor.changed) this.#closeEditor();
    byId("request-title")?.focus();
  }

  async #decide(body) {
    const request = this.#request;
    if (request === undefined || this.#allow.disabled) return;
    this.#busy = true;
    this.#update();
    const { fate, error } = await this.#send(request.id, body);
    // Where it counted, the board tells next.
    if (this.#request !== request || fate === "counted") return;
    this.#busy = false;
    this.#update();
    this.#tell(error ?? "It was decided before, or withdrawn.");
  }

  #remembered() {
    const scope = this.#scope.value;
    return scope === "once"
      ? ""
      : `,"remember":${JSON.stringify({ scope, match: this.#match.value })}`;
  }

  #toggleEditor() {
    if (this.#editor === undefined) this.#openEditor();
    else this.#closeEditor();
  }

  #openEditor() {
    if (this.#request === undefined || isChange(this.#request)) return;
    this.#editor = openEditor(this.#request, {
      isShell: isShell(this.#request),
      onInput: () => {
        this.#tell(this.#check());
        this.#update();
      },
      onAllow: () => this.allow(),
    });
    this.#update();
    this.#editor.focus();
  }

  #closeEditor() {
    this.#editor.element.remove();
    this.#editor = undefined;
    byId("arguments").hidden = false;
    this.#tell("");
    this.#update();
  }

  /** What is wrong with the edited arguments; empty when nothing is. */
  #check() {
    return this.#editor?.check() ?? "";
  }

  #tell(problem) {
    this.#problem.textContent = problem;
    this.#problem.hidden = problem === "";
  }

  #button(id, look, key, act) {
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

  #update() {
    const scope = this.#scope.value || "once";
    const usable = this.#guard.ready && this.#connected && !this.#busy;
    label(this.#allow, `Allow${SUFFIX[scope]}${this.#editor?.changed ? ", edited" : ""}`);
    label(this.#deny, `Deny${SUFFIX[scope]}`);
    label(
      this.#edit,
      this.#editor === undefined ? "Edit" : this.#editor.changed ? "Drop edits" : "Stop editing",
    );
    this.#allow.disabled = !usable;
    this.#deny.disabled = !usable;
    this.#remember.hidden = this.#scope.options.length < 2;
    this.#match.hidden = scope === "once";
  }
}

function label(button, text) {
  const wanted = `${text}|${button.dataset.key}`;
  if (button.dataset.label === wanted) return;
  button.dataset.label = wanted;
  button.replaceChildren(text, " ", el("kbd", { "aria-hidden": "true" }, button.dataset.key));
}

function fill(select, options) {
  select.replaceChildren(...options.map(([value, text]) => el("option", { value }, text)));
}
