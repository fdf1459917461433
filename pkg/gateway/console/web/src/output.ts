// What a process writes, as it comes.
import { Problem, lines, of, send, type Exit } from "./api.js";
import { fail, fill, h } from "./dom.js";
import { bytesOf, endOf, parted, plain } from "./text.js";
import { wakes, type View } from "./view.js";

// kept is how much of an output is shown, in characters: a browser shows more only slowly.
const kept = 256 << 10;
// piecesKept is how many pieces of it are shown, each of one stream: a program may change the stream with each byte.
const piecesKept = 4096;
// pieceLimit is how long a piece grows, in characters: the oldest pieces go as a whole.
const pieceLimit = 16 << 10;

interface Line {
  type: string;
  offset?: number;
  data?: string;
  data_base64?: string;
  exit?: Exit;
}

export function showOutput(root: HTMLElement, v: View, exec: string) {
  const text = h("pre", { tabindex: "0", role: "log", "aria-label": "Output" });
  const state = h("p", { class: "quiet", role: "status" }, "running");
  const screen = new Screen(text);
  fill(root, h("h2", {}, "Output"), text, state);
  follow(v, exec, screen).then(
    (exit) => (state.textContent = exit ? endOf(exit) : "running"),
    (e) => {
      fail(e, v.signal);
      if (!v.signal.aborted) state.textContent = e instanceof Problem && e.kind === "paused" ? "The sandbox is paused: its commands have ended." : e.message;
    },
  );
}

/** follow shows an output to its end. A connection that breaks costs no byte: it goes on by offset. */
async function follow(v: View, exec: string, screen: Screen): Promise<Exit | undefined> {
  const at = { stdout: 0, stderr: 0 };
  let began = false; // there has been a connection
  for (let tries = 0; !v.signal.aborted; tries++) {
    try {
      const query = `follow=true&stdout_offset=${at.stdout}&stderr_offset=${at.stderr}&${wakes(v, !began)}`;
      const answer = await send("GET", of(v.id, `/processes/${encodeURIComponent(exec)}/output?${query}`), { signal: v.signal });
      began = true;
      for await (const line of lines(answer)) {
        if (!line) continue;
        tries = 0;
        const got = JSON.parse(line) as Line;
        if (got.type === "exit") return screen.end(), got.exit;
        if (got.type !== "stdout" && got.type !== "stderr") continue;
        const bytes = got.data !== undefined ? new TextEncoder().encode(got.data) : bytesOf(got.data_base64 ?? "");
        const offset = got.offset ?? at[got.type];
        if (offset > at[got.type]) screen.missing(got.type, offset - at[got.type]);
        at[got.type] = offset + bytes.length;
        screen.add(got.type, bytes);
      }
    } catch (e) {
      if (v.signal.aborted || (e instanceof Problem && e.status < 500) || tries >= 5) throw e;
    }
    await new Promise((r) => setTimeout(r, 500 * (tries + 1)));
  }
  return undefined;
}

/** Screen shows the end of an output. It draws at most once for each picture of the display. */
class Screen {
  private waiting: { kind: string; text: string }[] = [];
  private waitingLength = 0;
  private length = 0;
  private drawing = false;
  private decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  private begun = { stdout: "", stderr: "" }; // escapes whose rest may come

  constructor(private readonly root: HTMLElement) {}

  add(stream: "stdout" | "stderr", bytes: Uint8Array) {
    const [text, begun] = parted(this.begun[stream] + this.decoders[stream].decode(bytes, { stream: true }));
    this.begun[stream] = begun;
    this.put(stream, text);
  }

  missing(stream: string, bytes: number) {
    this.put("omitted", `\n[${bytes} bytes of ${stream} are gone]\n`);
  }

  end() {
    for (const stream of ["stdout", "stderr"] as const) this.put(stream, this.begun[stream] + this.decoders[stream].decode());
  }

  /** put has text drawn. Of much that waits, as it does in a page that nobody looks at, only the end is kept. */
  private put(kind: string, text: string) {
    const shown = plain(text).slice(-kept);
    if (!shown) return; // it was only escapes
    const last = this.waiting.at(-1);
    if (last?.kind === kind && last.text.length < pieceLimit) last.text += shown;
    else this.waiting.push({ kind, text: shown });
    this.waitingLength += shown.length;
    while (this.waiting.length > 1 && (this.waitingLength > kept || this.waiting.length > piecesKept)) this.waitingLength -= this.waiting.shift()!.text.length;
    if (this.drawing) return;
    this.drawing = true;
    setTimeout(() => this.draw(), 50);
  }

  private draw() {
    this.drawing = false;
    this.waitingLength = 0;
    const atEnd = this.root.scrollTop + this.root.clientHeight >= this.root.scrollHeight - 8;
    for (const { kind, text } of this.waiting.splice(0)) {
      const last = this.root.lastElementChild;
      if (last?.className === kind && last.textContent!.length < pieceLimit) (last.firstChild as Text).appendData(text);
      else this.root.append(h("span", { class: kind }, text));
      this.length += text.length;
    }
    while (this.root.childElementCount > 1 && (this.length > kept || this.root.childElementCount > piecesKept)) {
      this.length -= this.root.firstElementChild!.textContent!.length;
      this.root.firstElementChild!.remove();
    }
    if (atEnd) this.root.scrollTop = this.root.scrollHeight;
  }
}
