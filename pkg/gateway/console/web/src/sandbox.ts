// One sandbox, with the views of what is in it.
import { get, of, type Sandbox } from "./api.js";
import { actions, badge } from "./actions.js";
import { showChanges } from "./changes.js";
import { showDetails } from "./details.js";
import { fail, fill, h, poll } from "./dom.js";
import { showEvents } from "./events.js";
import { showFiles } from "./files.js";
import { showPorts } from "./ports.js";
import { showProcesses } from "./processes.js";
import { showTerminals } from "./terminals.js";
import { since, visible } from "./text.js";
import { address, type View } from "./view.js";

const views: Record<string, { title: string; show: (root: HTMLElement, v: View) => void }> = {
  processes: { title: "Processes", show: showProcesses },
  files: { title: "Files", show: showFiles },
  terminal: { title: "Terminal", show: showTerminals },
  ports: { title: "Ports", show: showPorts },
  changes: { title: "Changes", show: showChanges },
  events: { title: "Events", show: showEvents },
  details: { title: "Details", show: showDetails },
};

export function showSandbox(main: HTMLElement, signal: AbortSignal, id: string, at: string[]) {
  const name = views[at[0] ?? ""] ? at[0]! : "processes";
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
      chosen.show(root, { id, at: at.slice(1), signal, sandbox: () => sandbox! });
      poll(signal, 3000, load);
    })
    .catch((e) => {
      fail(e, signal);
      if (!signal.aborted) fill(root, h("p", { class: "wrong" }, e.message));
    });
}
