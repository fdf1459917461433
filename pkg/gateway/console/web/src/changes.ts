// Changes to the files of the workdir, as they happen.
import { Problem, lines, of, send } from "./api.js";
import { fail, fill, h } from "./dom.js";
import { encode, shown } from "./path.js";
import { wakes, type View } from "./view.js";

// kept is how many changes are shown.
const kept = 500;
// pause is how long it takes until changes come over another connection, in milliseconds. A gateway that ends keeps the
// connections that it has for longer.
const pause = 1000;
// triesLimit is how many connections in a row may be refused.
const triesLimit = 10;

const following = "Changes to files are shown as they happen.";

interface Change {
  path?: string;
  path_base64?: string;
  from?: string;
  from_base64?: string;
  time?: string;
  status?: number;
  class?: string;
  detail?: string;
}

export function showChanges(root: HTMLElement, v: View) {
  const rows = h("tbody");
  const note = h("p", { class: "quiet", role: "status" }, "Connecting …");
  fill(root, note, h("table", { "aria-label": "Changes" }, h("thead", {}, h("tr", {}, ...["Time", "What", "File"].map((t) => h("th", { scope: "col" }, t)))), rows));
  new Follower(v, rows, note).follow().catch((e) => {
    if (e instanceof Problem) note.textContent = e.kind === "paused" ? "The sandbox is paused: no change is shown any more." : e.message;
    fail(e, v.signal);
  });
}

/** Follower shows changes over one connection after the other, and says where some may be missing. */
class Follower {
  private readonly open = new Set<AbortController>(); // connections that are ready
  private began = false; // one has been ready
  private tries = 0; // since one was

  constructor(
    private readonly v: View,
    private readonly rows: HTMLElement,
    private readonly note: HTMLElement,
  ) {}

  async follow() {
    while (!this.v.signal.aborted) {
      try {
        await this.connect();
      } catch (e) {
        if (this.v.signal.aborted || (e instanceof Problem && (e.status !== 503 || ++this.tries > triesLimit))) throw e;
      }
      await new Promise((r) => setTimeout(r, pause));
    }
  }

  /** connect makes a connection, and returns when it has ended or another is to take over from it. */
  private connect(): Promise<void> {
    return new Promise((over, broke) => {
      const own = new AbortController();
      this.v.signal.addEventListener("abort", () => own.abort(), { signal: own.signal });
      this.read(own, over)
        .finally(() => this.ended(own))
        .then(over, broke);
    });
  }

  /** read shows what comes over a connection. One whose gateway ends goes on until another is ready, so that nothing is missed. */
  private async read(own: AbortController, over: () => void) {
    const answer = await send("GET", of(this.v.id, `/watch?path=.&recursive=true&ignore=true&${wakes(this.v, !this.began)}`), { signal: own.signal });
    for await (const [kind, c] of events(answer)) {
      if (kind === "ready") this.ready(own);
      else if (kind === "reconnect") over();
      else if (kind === "overflow") this.add(c, "Changes are missing here: there were too many.");
      else if (kind === "error") throw new Problem(c.status ?? 502, c.class ?? "", c.detail ?? "the watch ended");
      else this.add(c, kind, namesOf(c));
    }
  }

  private ready(own: AbortController) {
    if (this.began && this.open.size === 0) this.add({}, "Changes may be missing here: the connection broke.");
    for (const other of this.open) other.abort();
    this.open.clear();
    this.open.add(own);
    this.began = true;
    this.tries = 0;
    this.note.textContent = following;
  }

  private ended(own: AbortController) {
    this.open.delete(own);
    own.abort();
    if (this.open.size === 0) this.note.textContent = "The connection broke: connecting again …";
  }

  private add(c: Change, what: string, names?: string) {
    const time = h("td", {}, new Date(c.time ?? Date.now()).toLocaleTimeString());
    const rest = names === undefined ? [h("td", { colspan: 2, class: "name wrong" }, what)] : [h("td", {}, what), h("td", { class: "name" }, names)];
    this.rows.prepend(h("tr", {}, time, ...rest));
    while (this.rows.children.length > kept) this.rows.lastElementChild!.remove();
  }
}

/** events reads server-sent events, each of one line of data. */
async function* events(answer: Response): AsyncGenerator<[string, Change]> {
  let kind = "";
  for await (const line of lines(answer)) {
    if (line.startsWith("event:")) kind = line.slice(6).trim();
    if (line.startsWith("data:")) yield [kind, JSON.parse(line.slice(5))];
  }
}

/** namesOf returns the path of a change, with that before a rename. */
function namesOf(c: Change): string {
  const name = (text?: string, base64?: string) => (text === undefined && base64 === undefined ? "" : shown(encode(text, base64)));
  const [from, path] = [name(c.from, c.from_base64), name(c.path, c.path_base64)];
  return from ? `${from} → ${path}` : path;
}
