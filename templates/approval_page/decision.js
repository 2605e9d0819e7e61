/**
 * The form for deciding a request.
 *
 * @module
 */
import { ArgumentsEditor } from "./arguments_editor.js";
import { byId, el } from "./dom.js";
import { GuardedForm, label } from "./guard.js";
import { isChange, isShell } from "./request.js";
import { foreign } from "./visible.js";

/** The text after "Allow" and "Deny". */
const SUFFIX = { once: "", cell: " · cell", session: " · session", always: " · always" };

const SCOPES = {
  once: "This call only",
  cell: "This cell",
  session: "This session",
  always: "Always",
};
const MATCHES = [["tool", "Any arguments"], ["arguments", "These arguments"]];
const SHELL_MATCHES = [["tool", "Any command"], ["arguments", "This command"]];

/** Decides the call in view. */
export class DecisionForm extends GuardedForm {
  #allow = this.button("allow", "primary", "y", () => this.allow());
  #deny = this.button("deny", "danger", "n", () => this.deny());
  #edit = this.button("edit", "quiet", "e", () => this.#toggleEditor());
  #reason = el("input", {
    id: "reason",
    maxlength: 2000,
    autocomplete: "off",
    placeholder: "Reason, if you deny",
  });
  #scope = el("select", { id: "scope", "aria-label": "For how long" });
  #match = el("select", { id: "match", "aria-label": "For which calls" });
  #pattern = el("p", { class: "note", hidden: true });
  #remember = el("div", { class: "remember" }, this.#scope, this.#match);
  #editor;

  /** @param send Sends a decision: `(id, body) => Promise<{ fate } | { error }>`. */
  constructor(send) {
    super(send, "Decision", "arguments");
    this.element.append(
      el("div", { class: "buttons" }, this.#allow, this.#deny, this.#edit),
      this.#pattern,
      el("label", { class: "unseen", for: "reason" }, "Reason"),
      this.#reason,
      this.#remember,
    );
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.deny(); // Enter in the reason's field
    });
    this.#scope.addEventListener("change", () => this.update());
    this.update();
  }

  show(request) {
    this.#editor = undefined;
    this.#reason.value = "";
    fill(this.#scope, ["once", ...request.scopes ?? []].map((scope) => [scope, SCOPES[scope]]));
    const [any, exact] = isShell(request) ? SHELL_MATCHES : MATCHES;
    const { pattern } = request;
    const between = pattern === undefined ? [] : [["pattern", "This pattern"]];
    fill(this.#match, [any, ...between, exact]);
    this.#pattern.replaceChildren("Pattern: ", foreign(pattern ?? ""));
    this.#edit.hidden = isChange(request);
    super.show(request);
  }

  allow() {
    const edited = this.#editor?.changed ? `,"edited":${JSON.stringify(this.#editor.edited)}` : "";
    const more = edited + this.#remembered();
    return this.agree(more === "" ? "true" : `{"approved":true${more}}`);
  }

  deny() {
    const reason = JSON.stringify(this.#reason.value.trim());
    return this.answer(`{"approved":false,"reason":${reason}${this.#remembered()}}`);
  }

  /** Focuses the field for the arguments. */
  edit() {
    if (this.#editor === undefined) this.#openEditor();
    else this.#editor.focus();
  }

  /** Focuses the field for the reason. */
  explain() {
    this.#reason.focus();
  }

  /** Selects how long the decision counts, if offered, and focuses the choice of calls. */
  remember(scope) {
    if (!Array.from(this.#scope.options).some(({ value }) => value === scope)) return;
    this.#scope.value = scope;
    this.update();
    this.#match.focus();
  }

  holds(target) {
    return this.element.contains(target) || (this.#editor?.element.contains(target) ?? false);
  }

  /** Leaves a field. Edits stay: one key must not lose what was typed. */
  leave(target) {
    const isUnused = this.#editor?.element.contains(target) && !this.#editor.changed;
    super.leave(target);
    if (isUnused) this.#closeEditor();
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
    if (this.request === undefined || isChange(this.request)) return;
    this.#editor = new ArgumentsEditor(this.request.tool_args.entries, {
      isShell: isShell(this.request),
      onInput: () => {
        this.report("");
        this.update();
      },
      onAllow: () => this.allow(),
    });
    const view = byId("arguments");
    view.hidden = true;
    view.after(this.#editor.element);
    this.see();
    this.#editor.focus();
  }

  #closeEditor() {
    this.#editor.element.remove();
    this.#editor = undefined;
    byId("arguments").hidden = false;
    this.report("");
    this.update();
  }

  update() {
    const scope = this.#scope.value || "once";
    const { usable } = this;
    label(this.#allow, `Allow${SUFFIX[scope]}${this.#editor?.changed ? ", edited" : ""}`);
    label(this.#deny, `Deny${SUFFIX[scope]}`);
    label(
      this.#edit,
      this.#editor === undefined ? "Edit" : this.#editor.changed ? "Drop edits" : "Stop editing",
    );
    this.#allow.disabled = !this.allowable;
    this.#deny.disabled = !usable;
    this.#remember.hidden = this.#scope.options.length < 2;
    this.#match.hidden = scope === "once";
    this.#pattern.hidden = scope === "once" || this.request?.pattern === undefined;
  }
}

function fill(select, options) {
  select.replaceChildren(...options.map(([value, text]) => el("option", { value }, text)));
}
