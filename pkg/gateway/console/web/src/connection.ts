// The WebSocket of a terminal. A connection that breaks costs no byte, in either direction: both go on by
// offset over the next one.
import { get, of, url, uuid7, type Exit, type Sandbox } from "./api.js";
import { endOf } from "./text.js";

// outputLimit is how much output may wait to be drawn, in bytes: above this, the page disconnects until it has
// drawn, and a program that writes faster than the browser draws is held up.
const outputLimit = 4 << 20;
// inputLimit is how much input may wait to be taken, in bytes.
const inputLimit = 1 << 20;
// frameLimit is how much input a frame may have, in bytes.
const frameLimit = 64 << 10;

export interface Ends {
  output: (bytes: Uint8Array, done: () => void) => void;
  size: () => { cols: number; rows: number };
  started: (id: string) => void;
  say: (text: string) => void;
  paused: () => void; // the sandbox is, and there is no connection any more
}

interface Event {
  type: string;
  exec_id?: string;
  stdin_offset?: number;
  exit?: Exit;
  problem?: { detail: string };
}

export class Connection {
  private socket?: WebSocket;
  private readonly key = uuid7();
  private attached = false; // the command is known by its id
  private seen = -1; // the offset of the output that comes next; -1 if the screen is to be shown
  private undrawn = 0;
  private waiting = new Uint8Array(0); // input that was not taken yet
  private taken = 0; // the offset at which it begins
  private sent = 0; // up to where it was sent over this connection
  private tries = 0;
  private over = false;
  private problem = "";

  constructor(
    private readonly id: string,
    private exec: string | undefined,
    private readonly ends: Ends,
    private readonly signal: AbortSignal,
  ) {
    this.attached = exec !== undefined;
    signal.addEventListener("abort", () => this.socket?.close(1000));
  }

  open() {
    if (this.over || this.signal.aborted) return;
    const query = new URLSearchParams();
    const { cols, rows } = this.ends.size();
    query.set("cols", String(cols));
    query.set("rows", String(rows));
    if (!this.attached) query.set("idempotency_key", this.key);
    else query.set("exec_id", this.exec!);
    if (this.attached || this.tries > 0) query.set("wake", "false"); // only what a person asked for wakes a sandbox
    if (this.attached && this.seen >= 0) query.set("stdout_offset", String(this.seen));
    const at = new URL(url(of(this.id, "/terminal?" + query)), location.href);
    at.protocol = at.protocol.replace("http", "ws");
    const socket = new WebSocket(at, "podagent.terminal.v1");
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    this.ends.say(this.tries ? "The connection broke: connecting again …" : "Connecting …");
    socket.onmessage = (e) => (typeof e.data === "string" ? this.event(JSON.parse(e.data)) : this.frame(e.data));
    socket.onclose = (e) => void this.closed(socket, e.code);
  }

  input(bytes: Uint8Array) {
    if (this.over) return;
    if (this.waiting.length + bytes.length > inputLimit) {
      this.ends.say("The program takes no input: what you typed is left out.");
      return;
    }
    const all = new Uint8Array(this.waiting.length + bytes.length);
    all.set(this.waiting);
    all.set(bytes, this.waiting.length);
    this.waiting = all;
    this.flush();
  }

  resize() {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ type: "resize", ...this.ends.size() }));
  }

  private event(e: Event) {
    switch (e.type) {
      case "start":
        this.tries = 0;
        this.ends.say("");
        this.exec = e.exec_id;
        if (!this.attached) this.ends.started(e.exec_id!);
        this.attached = true;
        this.ack(e.stdin_offset ?? 0, true);
        this.resize();
        break;
      case "ack":
        this.ack(e.stdin_offset ?? 0, false);
        break;
      case "exit":
        this.over = true;
        this.ends.say("It has ended: " + endOf(e.exit) + ".");
        break;
      case "error":
        this.problem = e.problem?.detail ?? "";
    }
  }

  /** ack forgets what was taken. A start says where input goes on, which another page may have sent as well. */
  private ack(offset: number, start: boolean) {
    if (start && (offset < this.taken || offset > this.taken + this.waiting.length)) {
      this.waiting = new Uint8Array(0);
      this.taken = offset;
    }
    if (offset > this.taken) {
      this.waiting = this.waiting.slice(offset - this.taken);
      this.taken = offset;
    }
    this.sent = start ? this.taken : Math.max(this.sent, this.taken);
    this.flush();
  }

  private flush() {
    if (this.socket?.readyState !== WebSocket.OPEN || !this.attached) return;
    for (let end = this.taken + this.waiting.length; this.sent < end; ) {
      const part = this.waiting.subarray(this.sent - this.taken, this.sent - this.taken + frameLimit);
      const frame = new Uint8Array(8 + part.length);
      new DataView(frame.buffer).setBigUint64(0, BigInt(this.sent));
      frame.set(part, 8);
      this.socket.send(frame);
      this.sent += part.length;
    }
  }

  private frame(data: ArrayBuffer) {
    if (data.byteLength < 8 || this.signal.aborted) return;
    const bytes = new Uint8Array(data, 8);
    this.seen = Number(new DataView(data).getBigUint64(0)) + bytes.length;
    this.undrawn += bytes.length;
    this.ends.output(bytes, () => {
      this.undrawn -= bytes.length;
      if (this.undrawn === 0 && this.socket === undefined) this.open();
    });
    if (this.undrawn > outputLimit && this.socket) {
      const socket = this.socket;
      this.socket = undefined;
      socket.onmessage = socket.onclose = null;
      socket.close(1000);
    }
  }

  private async closed(socket: WebSocket, code: number) {
    if (this.socket !== socket || this.over || this.signal.aborted) return;
    if (await this.isPaused()) {
      this.over = true;
      this.ends.paused();
    }
    if (this.over || this.signal.aborted) return;
    const final = code === 1000 || (code >= 4400 && code < 4500 && code !== 4408 && code !== 4429);
    if (final || ++this.tries > 8) {
      this.over = true;
      this.ends.say(this.problem || "The terminal cannot be reached.");
      return;
    }
    this.ends.say("The connection broke: connecting again …");
    setTimeout(() => this.open(), Math.min(5000, 250 * 2 ** this.tries));
  }

  /** isPaused reports whether the sandbox is. Without an answer it may run: connecting again does not wake it. */
  private async isPaused(): Promise<boolean> {
    try {
      return (await get<Sandbox>(of(this.id), this.signal)).state === "paused";
    } catch {
      return false;
    }
  }
}
