// The terminals of a sandbox: those that there are, and new ones.
import { Problem, get, of, post, type Process } from "./api.js";
import { button, fail, fill, h } from "./dom.js";
import { commandOf } from "./text.js";
import { address, type View } from "./view.js";

/**
 * showTerminals attaches to the terminal that the address names, if it is there, and else lists those that run. A
 * button alone makes a new one: a link of another page to this view starts no shell, and wakes no sandbox.
 */
export function showTerminals(root: HTMLElement, v: View) {
  choose(root, v).catch((e) => fail(e, v.signal));
}

async function choose(root: HTMLElement, v: View) {
  const [exec] = v.at;
  const note = h("p", { class: "quiet" });
  let all: Process[] = [];
  try {
    all = (await get<{ processes: Process[] }>(of(v.id, "/processes"), v.signal)).processes.filter((p) => p.terminal);
    if (exec && all.some((p) => p.exec_id === exec)) return open(root, v, exec);
    if (exec) note.textContent = "The terminal of this address is gone.";
  } catch (e) {
    if (!(e instanceof Problem)) throw e;
    note.textContent = e.message; // it is paused, say: a new terminal may wake it
  }
  const running = all.filter((p) => !p.exit).map((p) => h("li", {}, h("a", { class: "command", href: address(v.id, "terminal", p.exec_id) }, commandOf(p)), ` (process ${p.pid})`));
  if (v.signal.aborted) return;
  fill(
    root,
    note,
    button("New terminal", () => open(root, v), { class: "primary" }),
    h("h2", {}, "Terminals that run"),
    running.length ? h("ul", {}, ...running) : h("p", { class: "quiet" }, "None."),
  );
}

/** open loads the terminal when it is opened: it is larger than all the rest. */
function open(root: HTMLElement, v: View, exec?: string) {
  fill(root, h("p", { class: "quiet" }, "The terminal is loading."));
  if (!document.getElementById("terminal-style")) {
    document.head.append(h("link", { id: "terminal-style", rel: "stylesheet", href: "/console/files/terminal.css" }));
  }
  import("./terminal.js").then(
    (t) => {
      if (!v.signal.aborted) t.show(root, v, () => wake(root, v), exec);
    },
    (e) => fail(e, v.signal),
  );
}

/** wake resumes a sandbox. Its terminals ended when it was paused, unless it only seemed so. */
function wake(root: HTMLElement, v: View) {
  fill(root, h("p", { class: "quiet", role: "status" }, "It wakes up …"));
  post(of(v.id, "/resume"), undefined, v.signal, { repeats: true })
    .catch((e) => fail(e, v.signal))
    .then(() => !v.signal.aborted && showTerminals(root, v));
}
