import { type Connection, delay, linesOf, unlessAborted, wasSilent } from "./connection.js";
import { CutError, isProblem, ProblemError, UnreachableError } from "./errors.js";
import { newExecKey } from "./execkey.js";
import { bytesOfBase64, toBase64 } from "./text.js";
import type { Command, Exit, OutputEvent } from "./types.js";

/** How to run a command and follow it. */
export interface StreamOptions extends Command {
  /** Its standard input, up to 3 MiB: more goes by start and input of the sandbox. */
  stdin?: string | Uint8Array;
  /** Ends the command, with all that it started, when it aborts. */
  signal?: AbortSignal;
}

/** How to run a command and get its output. */
export interface ExecOptions extends StreamOptions {
  /** How many bytes of each output are kept: its end. 1 MiB if it is missing. */
  maxOutput?: number;
}

/** How a command ended, with the end of its output. */
export interface ExecResult extends Exit {
  stdout: string;
  stderr: string;
  /** How many bytes are missing before stdout and stderr. */
  stdoutOmitted: number;
  stderrOmitted: number;
}

/** A line of an answer with output, as the gateway sends it. */
interface OutputLine {
  type: "start" | "stdout" | "stderr" | "exit" | "running" | "reconnect";
  exec_id?: string;
  offset?: number;
  data?: string;
  data_base64?: string;
  exit?: Exit;
  stdin_offset?: number;
}

/** The body of an exec. */
export function bodyOf(command: Command): { [name: string]: unknown } {
  return {
    args: command.args,
    script: command.script,
    dir: command.dir,
    env: command.env && Object.entries(command.env).map(([name, value]) => `${name}=${value}`),
    timeout_seconds: command.timeout,
  };
}

/** The output of one command, which goes on at its offsets when an answer is cut off. */
export class Output {
  readonly #connection: Connection;
  readonly #root: string;
  readonly #signal: AbortSignal | undefined;
  readonly #at = { stdout: 0, stderr: 0 };
  #execId: string | undefined;
  #told = false; // that it has started
  #next: Promise<unknown> | undefined; // line
  #pause = 0;
  #giveUp = Infinity;
  #feeding: Promise<void> | undefined;

  /** Follows commands of the sandbox at root, from the given offsets on. */
  constructor(connection: Connection, root: string, from: { execId?: string; stdout?: number; stderr?: number; signal?: AbortSignal | undefined } = {}) {
    this.#connection = connection;
    this.#root = root;
    this.#execId = from.execId;
    this.#at.stdout = from.stdout ?? 0;
    this.#at.stderr = from.stderr ?? 0;
    this.#signal = from.signal;
  }

  /** Starts a command, and yields what it does. If the reader leaves before the end, the command ends. */
  async *run(options: StreamOptions): AsyncGenerator<OutputEvent, void, undefined> {
    const stdin = typeof options.stdin === "string" ? new TextEncoder().encode(options.stdin) : options.stdin;
    const json = { ...bodyOf(options), stdin: stdin && toBase64(stdin) };
    const headers = { "idempotency-key": newExecKey() };
    // Without the signal, since a request that is cut off leaves a command without a known id.
    const call = { json, headers, accept: "application/jsonl", stop: this.#signal, repeatable: true };
    let ended = false;
    try {
      for await (const event of this.#follow(() => this.#connection.send("POST", `${this.#root}/exec`, call), stdin)) {
        ended = event.type === "exit";
        yield event;
      }
    } finally {
      if (!ended) {
        const over = this.#end();
        if (this.#execId !== undefined) await over;
      }
    }
  }

  /** Yields the output of a command that runs, or has run, up to its end. */
  attach(): AsyncGenerator<OutputEvent, void, undefined> {
    return this.#follow(undefined, undefined);
  }

  /** Reads answers until one tells the end. */
  async *#follow(start: (() => Promise<Response>) | undefined, stdin: Uint8Array | undefined): AsyncGenerator<OutputEvent, void, undefined> {
    for (;;) {
      const lines = this.#lines(() => (this.#execId === undefined ? start!() : this.#reattach()));
      try {
        for (;;) {
          const next = lines.next();
          this.#next = next;
          const { done, value: line } = await unlessAborted(next, this.#signal);
          if (done || line.type === "reconnect") break;
          this.#pause = 0;
          const event = this.#eventOf(line);
          // The end of the answer comes at once: with it the connection is kept.
          if (event?.type === "exit") await unlessAborted(lines.next(), this.#signal).catch(() => {});
          if (event) yield event;
          if (event?.type === "exit") return;
        }
      } catch (error) {
        if (this.#signal?.aborted || !this.#mayGoOn(error)) throw error;
      } finally {
        void lines.return(); // later, if a line is still awaited
      }
      await this.#rest();
      // Beside the output: the command may read its input late, or never.
      if (stdin && this.#execId) this.#feeding ??= this.#finishStdin(this.#execId, stdin).catch(() => (this.#feeding = undefined));
    }
  }

  /** Yields the lines of an answer, and notes the command's id, also when nobody waits for it any more. */
  async *#lines(answer: () => Promise<Response>): AsyncGenerator<OutputLine, void, undefined> {
    for await (const line of linesOf<OutputLine>(await answer())) {
      this.#execId ??= line.exec_id;
      yield line;
    }
  }

  #reattach(): Promise<Response> {
    const query = { stdout_offset: this.#at.stdout, stderr_offset: this.#at.stderr, follow: true };
    return this.#connection.send("GET", this.#path("output"), { query, signal: this.#signal });
  }

  /** Returns what a line tells that is new. */
  #eventOf(line: OutputLine): OutputEvent | undefined {
    switch (line.type) {
      case "start": {
        const known = this.#told;
        this.#told = true;
        return known ? undefined : { type: "start", execId: line.exec_id! };
      }
      case "stdout":
      case "stderr":
        return this.#part(line.type, line);
      case "exit":
        return { type: "exit", exit: line.exit! };
      default:
        return undefined;
    }
  }

  /** Leaves out what came before, of a command that was started again by the same key. */
  #part(type: "stdout" | "stderr", line: OutputLine): OutputEvent | undefined {
    const data = line.data_base64 === undefined ? new TextEncoder().encode(line.data ?? "") : bytesOfBase64(line.data_base64);
    const known = Math.max(0, this.#at[type] - line.offset!);
    if (known >= data.length) return undefined;
    this.#at[type] = line.offset! + data.length;
    return { type, offset: line.offset! + known, data: data.subarray(known) };
  }

  /** Reports whether the command runs on though its output broke off. */
  #mayGoOn(error: unknown): boolean {
    if (error instanceof ProblemError && error.problem.exec_id) {
      this.#execId = error.problem.exec_id;
      return true;
    }
    if (this.#execId !== undefined && wasSilent(error)) {
      this.#pause = 0; // nothing has failed
      return true;
    }
    return error instanceof CutError || isProblem(error, "cut", "stalled");
  }

  /** Waits before the next try, longer each time, unless something has come since the last one. */
  async #rest(): Promise<void> {
    if (this.#pause === 0) this.#giveUp = Date.now() + 1000 * this.#connection.patience;
    else await delay(this.#pause, this.#signal);
    if (Date.now() > this.#giveUp) throw new UnreachableError("the output of the command breaks off again and again");
    this.#pause = Math.min(2 * this.#pause || 100, 2000);
  }

  async #finishStdin(execId: string, stdin: Uint8Array): Promise<void> {
    try {
      await new Input(this.#connection, this.#root, execId).send(stdin, true);
    } catch (error) {
      if (!isProblem(error, "stdin_closed", "process_done", "conflict")) throw error;
    }
  }

  /** Ends the command, once its id is known. */
  async #end(): Promise<void> {
    if (this.#execId === undefined) await this.#next?.catch(() => {});
    if (this.#execId === undefined) return; // it did not start
    await this.#connection.none("POST", this.#path("signal"), { json: { signal: 9 }, repeatable: true, patience: 10 }).catch(() => {});
  }

  #path(of: string): string {
    return `${this.#root}/processes/${this.#execId}/${of}`;
  }
}

const inputLimit = 1 << 20; // of one request

/** The standard input of a command that was started with open input. */
export class Input {
  readonly #connection: Connection;
  readonly #path: string;
  #taken = 0;

  constructor(connection: Connection, root: string, execId: string) {
    this.#connection = connection;
    this.#path = `${root}/processes/${execId}/stdin`;
  }

  /** Sends bytes, after those that were sent before, and returns when the command has taken them. */
  async send(data: Uint8Array, end = false): Promise<void> {
    for (let at = 0; ; ) {
      const part = data.slice(at, at + inputLimit);
      const last = at + part.length === data.length;
      if (part.length > 0 || (last && end)) {
        const query = { offset: this.#taken, end: last && end ? true : undefined };
        await this.#connection.none("PUT", this.#path, { query, body: part });
      }
      this.#taken += part.length;
      at += part.length;
      if (last) return;
    }
  }
}

/** Keeps the last bytes of an output. */
export class Tail {
  readonly #limit: number;
  #kept: Uint8Array[] = [];
  #size = 0;
  /** How many bytes are missing before those that are kept. */
  omitted = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** What is kept. */
  parts(): Uint8Array[] {
    return this.#kept;
  }

  /** Adds a part, and notes what is missing before it. */
  add(part: { offset: number; data: Uint8Array }): void {
    this.omitted = Math.max(this.omitted, part.offset - this.#size);
    this.#kept.push(part.data);
    this.#size += part.data.length;
    while (this.#size > this.#limit) {
      const first = this.#kept[0]!;
      const drop = Math.min(first.length, this.#size - this.#limit);
      if (drop === first.length) this.#kept.shift();
      else this.#kept[0] = first.subarray(drop);
      this.#size -= drop;
      this.omitted += drop;
    }
  }

  /** What is kept, as text. */
  text(): string {
    const decoder = new TextDecoder();
    return this.#kept.map((part) => decoder.decode(part, { stream: true })).join("") + decoder.decode();
  }
}
