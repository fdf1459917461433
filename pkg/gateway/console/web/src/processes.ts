// The processes of a sandbox, with what they write.
import { Problem, get, of, post, uuid7, type Process } from "./api.js";
import { button, fail, fill, h, poll, say } from "./dom.js";
import { showOutput } from "./output.js";
import { commandOf, endOf, since, size } from "./text.js";
import { address, type View } from "./view.js";

export function showProcesses(root: HTMLElement, v: View) {
  const [chosen] = v.at;
  const rows = h("tbody");
  const command = h("input", { "aria-label": "Command", placeholder: "A command for the shell", spellcheck: "false", autocapitalize: "off" });
  const form = h("form", { class: "row" }, command, h("button", {}, "Run"));
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    if (!command.value) return;
    post<{ exec_id: string }>(of(v.id, "/exec"), { script: command.value, detach: true }, v.signal, { key: uuid7() }).then(
      (started) => (location.hash = address(v.id, "processes", started.exec_id)),
      (error) => fail(error, v.signal),
    );
  });
  const note = h("p", { class: "quiet" });
  const output = h("div");
  fill(
    root,
    form,
    note,
    h(
      "table",
      { "aria-label": "Processes" },
      h("thead", {}, h("tr", {}, ...["Command", "State", "Started", "Output"].map((t) => h("th", { scope: "col", class: t === "Output" || t === "Started" ? "wide" : undefined }, t)), h("th", { scope: "col" }, h("span", { class: "hidden" }, "Actions")))),
      rows,
    ),
    output,
  );
  let drawn = "";
  poll(v.signal, 2000, async () => {
    let list: Process[] = [];
    try {
      list = (await get<{ processes: Process[] }>(of(v.id, "/processes"), v.signal)).processes;
      note.textContent = list.length ? "" : "No command has run here yet.";
    } catch (e) {
      if (!(e instanceof Problem) || e.status < 409 || e.status > 410) throw e;
      note.textContent = e.message; // it is paused, or has ended
    }
    list.sort((a, b) => Number(!!a.exit) - Number(!!b.exit) || Date.parse(b.started_at) - Date.parse(a.started_at));
    const text = JSON.stringify(list);
    if (text !== drawn) fill(rows, ...list.map((p) => rowOf(v, p, p.exec_id === chosen)));
    drawn = text;
  });
  if (chosen) showOutput(output, v, chosen);
}

function rowOf(v: View, p: Process, chosen: boolean): HTMLTableRowElement {
  const at = p.terminal && !p.exit ? address(v.id, "terminal", p.exec_id) : address(v.id, "processes", p.exec_id);
  const signal = (number: number, name: string) =>
    button(name, () => void post(of(v.id, `/processes/${p.exec_id}/signal`), { signal: number }).then(() => say(`${name} was sent.`), fail), {
      "aria-label": `${name} to process ${p.pid}`,
    });
  return h(
    "tr",
    { "aria-current": chosen ? "true" : undefined },
    h("th", { scope: "row" }, h("a", { class: "command", href: at }, commandOf(p))),
    h("td", {}, h("span", { class: "state " + (p.exit ? (p.exit.code ? "wrong" : "ended") : "running") }, endOf(p.exit))),
    h("td", { class: "wide" }, since(p.started_at) + " ago"),
    h("td", { class: "wide" }, size(p.stdout_bytes + p.stderr_bytes)),
    h("td", {}, h("div", { class: "row end" }, ...(p.exit ? [] : [signal(15, "Terminate"), signal(9, "Kill")]))),
  );
}
