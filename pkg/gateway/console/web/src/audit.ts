// What callers did with the sandbox.
import { get, of } from "./api.js";
import { fill, h, poll } from "./dom.js";
import { Gateways, timeOf, type Recent } from "./recent.js";
import { line, visible } from "./text.js";
import type { View } from "./view.js";

interface Entry {
  id: string;
  time: string;
  key?: string;
  operation: string;
  args?: string[];
  paths?: string[];
  port?: number;
  method?: string;
  exec_id?: string;
  open?: boolean;
  status?: number;
  class?: string;
  exit?: number;
  ms?: number;
}

interface Records extends Recent {
  records: Entry[];
}

export function showAudit(root: HTMLElement, v: View) {
  const rows = h("tbody");
  const note = h("p", { class: "quiet", role: "status" });
  const looks = h("input", { type: "checkbox", id: "looks" });
  const titles = ["Call", "On", "By", "At", "Answer"].map((t) => h("th", { scope: "col", class: t === "By" ? "wide" : undefined }, t));
  fill(
    root,
    h("p", {}, looks, " ", h("label", { for: "looks" }, "also calls that only look")),
    note,
    h("table", { "aria-label": "Calls" }, h("thead", {}, h("tr", {}, ...titles)), rows),
  );
  let gateways = new Gateways<Records>();
  let drawn = "";
  const load = async () => {
    const to = gateways;
    const got = await get<Records>(of(v.id, `/audit?limit=200&looks=${looks.checked}`), v.signal);
    if (to !== gateways) return; // it was asked for something else
    to.add(got);
    const all = to.all.flatMap((g) => g.records).sort((a, b) => Date.parse(b.time) - Date.parse(a.time));
    const text = JSON.stringify(all);
    if (text !== drawn) fill(rows, ...all.map(rowOf));
    drawn = text;
    const said = (all.length ? "" : "There was no call yet. ") + to.omitted();
    if (note.textContent !== said) note.textContent = said;
  };
  looks.addEventListener("change", () => {
    gateways = new Gateways<Records>();
    void load().catch((e) => (note.textContent = String(e.message)));
  });
  poll(v.signal, 3000, load);
}

function rowOf(e: Entry): HTMLElement {
  const on = [e.method, e.port && `port ${e.port}`, e.args?.join(" "), e.paths?.join(", "), e.exec_id && !e.args?.length && `command ${e.exec_id}`];
  const answer = e.open ? "under way" : [e.status ?? "none", e.class, e.exit !== undefined && `exit ${e.exit}`].filter((t) => t !== undefined && t !== false && t !== "").join(", ");
  const wrong = !e.open && (!e.status || e.status >= 400 || e.class);
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, visible(e.operation)),
    h("td", { class: "name command" }, line(on.filter((t) => t).join(" "), 300)),
    h("td", { class: "wide" }, visible(e.key ?? "")),
    h("td", {}, timeOf(e.time)),
    h("td", { class: "name" }, h("span", { class: wrong ? "wrong" : undefined }, answer)),
  );
}
