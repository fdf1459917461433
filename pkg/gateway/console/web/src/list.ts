// All sandboxes.
import { sandboxes, type Sandbox } from "./api.js";
import { actions, badge } from "./actions.js";
import { fill, h, poll } from "./dom.js";
import { ownerOf, since, span, until, visible } from "./text.js";

export function showList(main: HTMLElement, signal: AbortSignal) {
  document.title = "Sandboxes · podagent";
  const rows = h("tbody");
  const count = h("p", { class: "quiet" });
  const filter = h("input", { type: "search", "aria-label": "Filter by name, state, owner, pool or label", placeholder: "Filter", spellcheck: "false" });
  let all: Sandbox[] = [];
  const lastActive = new Map<string, number>(); // when each was, as far as its agent says it
  const seen = new Map<string, { text: string; row: HTMLTableRowElement }>();
  const draw = () => {
    const words = filter.value.toLowerCase().split(/\s+/);
    const some = all.filter((s) => words.every((w) => textOf(s).includes(w)));
    count.textContent = some.length === all.length ? number(all.length) : `${some.length} of ${number(all.length)}`;
    const next = some.map((s) => {
      const text = JSON.stringify(s);
      const before = seen.get(s.id);
      if (before?.text === text) {
        age(before.row, s, lastActive.get(s.id));
        return before.row; // with the focus that it may have
      }
      const row = rowOf(s, load);
      age(row, s, lastActive.get(s.id));
      seen.set(s.id, { text, row });
      return row;
    });
    if (next.length !== rows.children.length || next.some((row, i) => row !== rows.children[i])) rows.replaceChildren(...next);
  };
  const load = async () => {
    all = await sandboxes(signal);
    draw();
  };
  const loadIdle = async () => {
    const asked = Date.now();
    const those = await sandboxes(signal, true);
    lastActive.clear();
    for (const s of those) if (s.idle_for_seconds !== undefined) lastActive.set(s.id, asked - s.idle_for_seconds * 1000);
    draw();
  };
  filter.addEventListener("input", draw);
  document.addEventListener("keydown", (e) => {
    if (e.key === "/" && !(e.target instanceof HTMLInputElement)) {
      e.preventDefault();
      filter.focus();
    }
  }, { signal });
  const titles = ["Name", "State", "Age", "Ends in", "Idle", "Owner", "Pool", "Labels"].map((t, i) => h("th", { scope: "col", class: i > 2 ? "wide" : undefined }, t));
  fill(
    main,
    h("div", { class: "row" }, h("h1", {}, "Sandboxes"), filter),
    count,
    h("table", { "aria-label": "Sandboxes" }, h("thead", {}, h("tr", {}, ...titles, h("th", { scope: "col" }, h("span", { class: "hidden" }, "Actions")))), rows),
  );
  poll(signal, 3000, load);
  poll(signal, 15_000, loadIdle); // each agent is asked
}

const number = (n: number) => (n === 1 ? "1 sandbox" : `${n} sandboxes`);

const labelsOf = (s: Sandbox) => Object.entries(s.labels ?? {}).map(([name, value]) => `${name}=${value}`);

const textOf = (s: Sandbox) => [s.id, s.state, s.owner?.key ?? s.owner?.tenant ?? "", s.pool ?? "", ...labelsOf(s)].join(" ").toLowerCase();

function age(row: HTMLElement, s: Sandbox, active: number | undefined) {
  row.children[2]!.textContent = since(s.created_at);
  row.children[3]!.textContent = until(s.expires_at);
  row.children[4]!.textContent = active === undefined || s.state !== "running" ? "" : span((Date.now() - active) / 1000);
}

function rowOf(s: Sandbox, changed: () => Promise<void>): HTMLTableRowElement {
  const name = h("a", { href: "#/s/" + encodeURIComponent(s.id) }, visible(s.id));
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, name),
    h("td", {}, badge(s.state)),
    h("td"),
    h("td", { class: "wide" }),
    h("td", { class: "wide" }),
    h("td", { class: "wide name" }, ownerOf(s)),
    h("td", { class: "wide name" }, visible(s.pool ?? "")),
    h("td", { class: "wide name" }, ...labelsOf(s).map((l) => h("span", { class: "label" }, visible(l)))),
    h("td", {}, h("div", { class: "row end" }, ...actions(s, changed))),
  );
}
