// What the sandbox tried to reach, and what came of it.
import { get, of } from "./api.js";
import { fill, h, poll } from "./dom.js";
import { Gateways, timeOf, type Recent } from "./recent.js";
import { visible } from "./text.js";
import type { View } from "./view.js";

interface Decision {
  verdict: "allowed" | "denied" | "failed" | "noticed";
  host?: string;
  port?: number;
  rule?: string;
  reason?: string;
  allow?: string;
  credential?: string;
  count: number;
  last_at: string;
}

interface Decisions extends Recent {
  way_out: "here" | "elsewhere" | "none";
  decisions: Decision[];
}

export function showEgress(root: HTMLElement, v: View) {
  const rows = h("tbody");
  const note = h("p", { class: "quiet", role: "status" });
  const titles = ["Host", "Verdict", "Times", "Last", "Why"].map((t) => h("th", { scope: "col", class: t === "Times" ? "wide" : undefined }, t));
  fill(root, note, h("table", { "aria-label": "Egress decisions" }, h("thead", {}, h("tr", {}, ...titles)), rows));
  const gateways = new Gateways<Decisions>();
  let drawn = "";
  poll(v.signal, 3000, async () => {
    const got = await get<Decisions>(of(v.id, "/egress/decisions?limit=200"), v.signal);
    gateways.add(got);
    const all = gateways.all.flatMap((g) => g.decisions).sort((a, b) => Date.parse(b.last_at) - Date.parse(a.last_at));
    const text = [wayOut(got, gateways), all.length ? "" : "It has tried nothing yet.", gateways.omitted()].filter((t) => t).join(" ");
    if (note.textContent !== text) note.textContent = text;
    const next = JSON.stringify(all);
    if (next !== drawn) fill(rows, ...all.map(rowOf));
    drawn = next;
  });
}

function wayOut(got: Decisions, gateways: Gateways<Decisions>): string {
  if (got.way_out === "none") return "No gateway lets this sandbox out now.";
  if (gateways.all.some((g) => g.way_out === "here")) return "";
  return "Another gateway lets this sandbox out: what it tries there is shown when that one answers.";
}

function rowOf(d: Decision): HTMLElement {
  const host = !d.host ? "(not let in)" : d.port ? `${d.host}:${d.port}` : d.host;
  const kind = { allowed: "running", denied: "wrong", failed: "wrong", noticed: "paused" }[d.verdict];
  const why = [d.reason, d.verdict === "allowed" && d.rule && `by the rule ${d.rule}`, d.credential && `credential ${d.credential}`, d.allow && `${d.allow} would allow it`];
  return h(
    "tr",
    {},
    h("th", { scope: "row", class: "name" }, visible(host)),
    h("td", {}, h("span", { class: "state " + kind }, d.verdict)),
    h("td", { class: "wide" }, String(d.count)),
    h("td", {}, timeOf(d.last_at)),
    h("td", { class: "name" }, visible(why.filter((w) => w).join("; "))),
  );
}
