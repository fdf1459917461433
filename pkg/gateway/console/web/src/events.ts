// What happened to a sandbox's pod, as the cluster reports it.
import { Problem, get, of, type PodEvent } from "./api.js";
import { fill, h, poll } from "./dom.js";
import { since, visible } from "./text.js";
import type { View } from "./view.js";

export function showEvents(root: HTMLElement, v: View) {
  const rows = h("tbody");
  const note = h("p", { class: "quiet" });
  const titles = ["Ago", "Kind", "Event", "What happened"].map((t) => h("th", { scope: "col" }, t));
  const table = h("table", { "aria-label": "Events" }, h("thead", {}, h("tr", {}, ...titles)), rows);
  table.hidden = true;
  fill(root, note, table);
  poll(v.signal, 10_000, async () => {
    try {
      const { events } = await get<{ events: PodEvent[] }>(of(v.id, "/events"), v.signal);
      note.textContent = events.length ? "" : "The cluster reports nothing of the last hour.";
      table.hidden = !events.length;
      fill(rows, ...events.map(rowOf));
    } catch (e) {
      if (!(e instanceof Problem)) throw e;
      note.textContent = e.message;
    }
  });
}

const rowOf = (e: PodEvent) =>
  h(
    "tr",
    {},
    h("td", { title: new Date(e.time).toLocaleString() }, since(e.time)),
    h("td", {}, h("span", { class: e.warning ? "wrong" : "quiet" }, e.warning ? "warning" : "normal")),
    h("th", { scope: "row" }, visible(e.reason)),
    h("td", { class: "name" }, visible(e.message), e.count > 1 && ` (${e.count} times)`),
  );
