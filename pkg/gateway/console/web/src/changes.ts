// Changes to the files of the workdir, as they happen.
import { Problem, lines, of, send } from "./api.js";
import { fail, fill, h } from "./dom.js";
import { encode, shown } from "./path.js";
import type { View } from "./view.js";

// kept is how many changes are shown.
const kept = 500;

export function showChanges(root: HTMLElement, v: View) {
  const list = h("tbody");
  const note = h("p", { class: "quiet", role: "status" }, "Changes to files are shown as they happen.");
  fill(root, note, h("table", { "aria-label": "Changes" }, h("thead", {}, h("tr", {}, ...["Time", "What", "File"].map((t) => h("th", { scope: "col" }, t)))), list));
  follow(v, list, note).catch((e) => {
    if (e instanceof Problem) note.textContent = e.message;
    fail(e, v.signal);
  });
}

/** follow watches on when a connection breaks, and says so. */
async function follow(v: View, list: HTMLElement, note: HTMLElement) {
  while (!v.signal.aborted) {
    try {
      await watch(v, list);
    } catch (e) {
      if (e instanceof Problem || v.signal.aborted) throw e;
    }
    note.textContent = "The connection broke: changes meanwhile are not shown.";
    await new Promise((r) => setTimeout(r, 1000));
  }
}

async function watch(v: View, list: HTMLElement) {
  const answer = await send("GET", of(v.id, "/watch?path=.&recursive=true&ignore=true"), { signal: v.signal });
  let kind = "";
  for await (const line of lines(answer)) {
    if (line.startsWith("event:")) kind = line.slice(6).trim();
    if (!line.startsWith("data:")) continue;
    const c = JSON.parse(line.slice(5)) as { path?: string; path_base64?: string; time?: string; status?: number; class?: string; detail?: string };
    if (kind === "error") throw new Problem(c.status ?? 502, c.class ?? "", c.detail ?? "the watch ended");
    const path = shown(encode(c.path ?? (c.path_base64 === undefined ? "" : undefined), c.path_base64));
    list.prepend(h("tr", {}, h("td", {}, new Date(c.time ?? Date.now()).toLocaleTimeString()), h("td", {}, kind), h("td", { class: "name" }, path)));
    while (list.children.length > kept) list.lastElementChild!.remove();
  }
}
