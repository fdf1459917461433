// What a sandbox is, and what it uses.
import { Problem, get, of, session, type SSH, type Sandbox, type Stats } from "./api.js";
import { button, fail, fill, h, poll, say } from "./dom.js";
import { ownerOf, since, size, span, until, visible } from "./text.js";
import type { View } from "./view.js";

export function showDetails(root: HTMLElement, v: View) {
  const facts = h("dl");
  const uses = h("dl");
  const note = h("p", { class: "quiet" });
  fill(root, h("h2", {}, "About"), facts, h("h2", {}, "Uses"), note, uses, session.ssh && byShell(v, session.ssh));
  poll(v.signal, 5000, async () => {
    const s = await get<Sandbox>(of(v.id, "?idle=true"), v.signal);
    show(facts, {
      State: s.state,
      Owner: ownerOf(s),
      Pool: s.pool && visible(s.pool),
      Idle: s.idle_for_seconds === undefined ? undefined : `for ${span(s.idle_for_seconds)}`,
      Workdir: s.workdir && visible(s.workdir),
      Made: s.created_at && `${new Date(s.created_at).toLocaleString()}, ${since(s.created_at)} ago`,
      Ends: s.expires_at && `${new Date(s.expires_at).toLocaleString()}, in ${until(s.expires_at)}`,
      Sleeps: s.auto_pause ? "when it is idle, until the next call" : undefined,
      Labels: Object.entries(s.labels ?? {}).map(([k, x]) => visible(`${k}=${x}`)).join(", "),
      "May reach": s.allow_hosts && (s.allow_hosts.map(visible).join(", ") || "nothing"),
    });
    try {
      show(uses, usesOf(await get<Stats>(of(v.id, "/stats"), v.signal)));
      note.textContent = "";
    } catch (e) {
      if (!(e instanceof Problem)) throw e;
      note.textContent = e.message;
    }
  });
}

/** byShell shows how SSH reaches the sandbox, for the tools of the machine that shows the page. */
function byShell(v: View, ssh: SSH): HTMLElement {
  const host = ssh.host ?? location.hostname.replace(/^\[|\]$/g, "");
  const line = (what: string, text: string) => {
    const copy = () => navigator.clipboard.writeText(text).then(() => say(`${what} is copied.`)).catch((e) => fail(e, v.signal));
    return [h("dt", {}, what), h("dd", { class: "row" }, h("code", {}, text), button("Copy", () => void copy(), { "aria-label": `Copy ${what}` }))];
  };
  const at = ssh.port === 22 ? host : `[${host}]:${ssh.port}`;
  const known = ssh.host_keys.flatMap((key) => line("Line of known_hosts", visible(`${at} ${key}`)));
  const command = visible(`ssh ${ssh.port === 22 ? "" : `-p ${ssh.port} `}${v.id}@${host}`);
  return h("div", {}, h("h2", {}, "SSH"), h("dl", {}, ...line("Command", command), ...known));
}

function show(list: HTMLElement, all: Record<string, string | undefined>) {
  fill(list, ...Object.entries(all).flatMap(([name, value]) => (value ? [h("dt", {}, name), h("dd", {}, value)] : [])));
}

function usesOf(s: Stats): Record<string, string | undefined> {
  const within = (used: number | undefined, most: number | undefined, show: (n: number) => string) => (used === undefined ? undefined : show(used) + (most ? ` of ${show(most)}` : ""));
  return {
    Memory: within(s.memory_working_set_bytes ?? s.memory_bytes, s.memory_limit_bytes, size),
    Processor: s.cpu_seconds === undefined ? undefined : `${s.cpu_seconds.toFixed(1)} s` + (s.cpu_limit_cores ? ` by up to ${s.cpu_limit_cores} cores` : ""),
    Processes: within(s.pids, s.pids_limit, String),
    Disk: within(s.disk_used_bytes, s.disk_size_bytes, size),
  };
}
