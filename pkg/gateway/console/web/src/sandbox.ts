// One sandbox, with the views of what is in it.
import { get, of, type Sandbox } from "./api.js";
import { actions, badge } from "./actions.js";
import { showAudit } from "./audit.js";
import { showChanges } from "./changes.js";
import { showDetails } from "./details.js";
import { button, fail, fill, h, poll } from "./dom.js";
import { showEgress } from "./egress.js";
import { showEvents } from "./events.js";
import { showFiles } from "./files.js";
import { showPorts } from "./ports.js";
import { showProcesses } from "./processes.js";
import { showTerminals } from "./terminals.js";
import { since, visible } from "./text.js";
import { address, type View } from "./view.js";

interface Kind {
  title: string;
  show: (root: HTMLElement, v: View) => void;
  wakes?: (v: View) => boolean; // what it shows at once resumes a sandbox that sleeps
}

const views: Record<string, Kind> = {
  processes: { title: "Processes", show: showProcesses, wakes: (v) => v.at.length > 0 },
  files: { title: "Files", show: showFiles, wakes: () => true },
  terminal: { title: "Terminal", show: showTerminals },
  ports: { title: "Ports", show: showPorts },
  changes: { title: "Changes", show: showChanges, wakes: () => true },
  events: { title: "Events", show: showEvents },
  egress: { title: "Egress", show: showEgress },
  audit: { title: "Audit", show: showAudit },
  details: { title: "Details", show: showDetails },
};

export function showSandbox(main: HTMLElement, signal: AbortSignal, id: string, at: string[]) {
  const name = Object.hasOwn(views, at[0] ?? "") ? at[0]! : "processes";
  const chosen = views[name]!;
  document.title = `${visible(id)}: ${chosen.title} · podagent`;
  const state = h("span");
  const buttons = h("div", { class: "row end" });
  const root = h("section", { "aria-label": chosen.title });
  const tabs = Object.entries(views).map(([key, v]) => h("a", { href: address(id, key), "aria-current": key === name ? "page" : undefined }, v.title));
  fill(
    main,
    h("div", { class: "row" }, h("h1", {}, visible(id)), state, buttons),
    h("nav", { class: "tabs", "aria-label": "Views of the sandbox" }, ...tabs),
    root,
  );
  let sandbox: Sandbox | undefined;
  let drawn = "";
  const load = async () => {
    sandbox = await get<Sandbox>(of(id), signal);
    const text = JSON.stringify(sandbox);
    if (text !== drawn) {
      fill(state, badge(sandbox.state));
      fill(buttons, ...actions(sandbox, load));
      state.title = "made " + since(sandbox.created_at) + " ago";
    }
    drawn = text;
  };
  load()
    .then(() => {
      if (signal.aborted) return;
      open(root, chosen, { id, at: at.slice(1), signal, sandbox: () => sandbox! });
      poll(signal, 3000, load);
    })
    .catch((e) => {
      fail(e, signal);
      if (!signal.aborted) fill(root, h("p", { class: "wrong" }, e.message));
    });
}

/**
 * open shows a view. One that would wake a sandbox waits for a click: a link of another page may lead here. Calls wake one
 * that pauses by itself also while its pod ends.
 */
function open(root: HTMLElement, kind: Kind, v: View) {
  const s = v.sandbox();
  if (s.state === "running" || !s.auto_pause || !kind.wakes?.(v)) return kind.show(root, v);
  const what = s.state === "paused" ? "It sleeps." : `It is ${s.state}.`;
  fill(root, h("p", {}, `${what} What this view shows wakes it.`), button("Wake it", () => kind.show(root, { ...v, woken: true })));
}
