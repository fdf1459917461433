// Elements are made by script alone: text of sandboxes becomes text nodes and attributes that name nothing,
// never markup.

type Child = Node | string | undefined | null | false;
type Props = { class?: string; on?: Record<string, (e: any) => void> } & Record<string, unknown>;

/** h makes an element. Its properties are attributes, but for class and on. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, props: Props = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === "on") {
      for (const [event, handler] of Object.entries(value as object)) element.addEventListener(event, handler);
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== false && value !== undefined) {
      element.setAttribute(name, String(value));
    }
  }
  fill(element, ...children);
  return element;
}

/** fill replaces what is in an element. */
export function fill(element: Element, ...children: Child[]) {
  element.replaceChildren(...children.filter((c): c is Node | string => c !== undefined && c !== null && c !== false));
}

/** button makes a button that says by its name what it does. */
export function button(text: string, act: () => void, props: Props = {}): HTMLButtonElement {
  return h("button", { type: "button", ...props, on: { click: act } }, text);
}

/** say tells people, and screen readers, what has happened. */
export function say(text: string) {
  const status = document.getElementById("status")!;
  status.textContent = text;
  clearTimeout(sayTimer);
  sayTimer = window.setTimeout(() => (status.textContent = ""), 10_000);
}
let sayTimer = 0;

/** fail tells of an error, unless the view that it comes from has been left. */
export function fail(error: unknown, signal?: AbortSignal) {
  if (signal?.aborted) return;
  say(error instanceof Error ? error.message : String(error));
}

/** poll calls now and again, while the page can be seen, until the view is left. An answer is waited for. */
export function poll(signal: AbortSignal, every: number, act: () => Promise<void>) {
  const turn = async () => {
    if (signal.aborted) return;
    if (!document.hidden) await act().catch((e) => fail(e, signal));
    if (!signal.aborted) setTimeout(turn, every);
  };
  void turn();
}

/** ask shows a dialog, and returns the value of its field, or true without one; undefined if it is left. */
export function ask(title: string, text: string, act: string, field?: { label: string; value: string; type: string }): Promise<string | true | undefined> {
  return new Promise((done) => {
    const input = field && h("input", { id: "ask", type: field.type, value: field.value, min: 1 });
    const dialog = h(
      "dialog",
      { "aria-labelledby": "ask-title" },
      h("h2", { id: "ask-title" }, title),
      h("p", {}, text),
      h(
        "form",
        { method: "dialog" },
        field && h("label", { for: "ask" }, field.label),
        input,
        h("div", { class: "row" }, h("button", { value: "yes", class: "primary" }, act), h("button", { value: "no", formnovalidate: true }, "Cancel")),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      done(dialog.returnValue !== "yes" ? undefined : input ? input.value : true);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
