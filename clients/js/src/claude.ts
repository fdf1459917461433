/**
 * Runs Claude Code in a sandbox for the Claude Agent SDK: a process there, with its standard input
 * and output here.
 *
 * @packageDocumentation
 */
import { EventEmitter } from "node:events";
import { constants } from "node:os";
import { Readable, Writable } from "node:stream";
import { CutError, isProblem, PodagentError } from "./errors.js";
import type { Input } from "./exec.js";
import type { Sandbox } from "./sandbox.js";
import type { Exit } from "./types.js";

/** What the SDK asks to start. */
export interface SpawnOptions {
  command: string;
  args: string[];
  cwd?: string;
  env: { [name: string]: string | undefined };
  signal: AbortSignal;
}

export interface ClaudeOptions {
  /**
   * The variables that the process gets of those that the SDK gives, which are the host's own and what was added.
   * Without it they are those whose names begin with ANTHROPIC_, CLAUDE_ or MCP_.
   */
  env?: (name: string) => boolean;
}

/**
 * Returns the option spawnClaudeCodeProcess of the SDK's query. Its options
 * pathToClaudeCodeExecutable and cwd are of the sandbox then; without cwd the process works in the workdir.
 */
export function spawnClaudeCode(sandbox: Sandbox, options: ClaudeOptions = {}): (spawn: SpawnOptions) => SandboxProcess {
  const pass = options.env ?? ((name) => /^(ANTHROPIC|CLAUDE|MCP)_/.test(name));
  return ({ command, args, cwd, env, signal }) => {
    const passed = Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined && pass(entry[0]));
    // The SDK gives the host's own directory if it was told none.
    const dir = cwd === undefined || cwd === process.cwd() ? {} : { dir: cwd };
    return new SandboxProcess(sandbox, { args: [command, ...args], env: Object.fromEntries(passed), ...dir }, signal);
  };
}

interface Events {
  exit: [code: number | null, signal: NodeJS.Signals | null];
  error: [error: Error];
}

/** A process in a sandbox, like a ChildProcess of Node. It outlives lost connections. */
export class SandboxProcess extends EventEmitter<Events> {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** A signal was sent to it. */
  killed = false;
  exitCode: number | null = null;
  signalCode: NodeJS.Signals | null = null;
  readonly #sandbox: Sandbox;
  readonly #started: Promise<string>;
  readonly #leave = new AbortController();
  #input: Input | undefined;
  #over = false;

  /** Starts a command. If the signal aborts, the process gets SIGTERM. */
  constructor(sandbox: Sandbox, command: { args: string[]; env?: { [name: string]: string }; dir?: string }, signal?: AbortSignal) {
    super();
    this.#sandbox = sandbox;
    this.stdin = this.#writable();
    this.stdout = new Readable({ read: () => this.#resume?.() });
    this.stderr = new Readable({ read() {} });
    this.stderr.resume(); // nobody has to read it
    this.stdin.on("error", () => {}); // the process tells of its end itself
    this.#started = sandbox.start(command, true);
    const refused = (error: unknown) => this.#fail(spawnError(error, command.args));
    this.#started.then((execId) => this.#follow(execId).catch((error: unknown) => this.#fail(error as Error)), refused);
    const abort = () => this.kill("SIGTERM");
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort, { once: true });
    this.once("exit", () => signal?.removeEventListener("abort", abort));
  }

  /**
   * Sends a signal to the process and all that it started, and reports whether it was still there. While no gateway
   * answers, it is sent again, so the process may get it twice.
   */
  kill(signal: NodeJS.Signals = "SIGTERM"): boolean {
    if (this.#over) return false;
    this.killed = true;
    const unsent = (error: unknown) => {
      if (!isProblem(error, "process_done")) this.#fail(error as Error);
    };
    const send = (execId: string) => this.#sandbox.signal(execId, constants.signals[signal], { repeatable: true, stop: this.#leave.signal }).catch(unsent);
    this.#started.then(send, () => {}); // one that did not start has failed already
    return true;
  }

  #resume: (() => void) | undefined;

  /** Passes the output on, as fast as it is read, until the end. */
  async #follow(execId: string): Promise<void> {
    let at = 0; // in stdout
    for await (const event of this.#sandbox.output(execId, { signal: this.#leave.signal })) {
      if (event.type === "stdout") {
        if (event.offset > at) throw new CutError(`${event.offset - at} bytes of the output are missing: nobody read them in time`);
        at = event.offset + event.data.length;
        if (!this.stdout.push(event.data)) await this.#drained();
      }
      if (event.type === "stderr") this.stderr.push(event.data);
      if (event.type === "exit") this.#exit(event.exit);
    }
  }

  #drained(): Promise<void> {
    return new Promise((resolve) => {
      this.#resume = resolve;
    });
  }

  #exit(exit: Exit): void {
    if (exit.signal !== undefined && exit.reason !== "exited") this.signalCode = nameOf(exit.signal);
    else this.exitCode = exit.code;
    this.#end();
    this.emit("exit", this.exitCode, this.signalCode);
  }

  #fail(error: Error): void {
    if (this.#over) return;
    this.#end();
    this.emit("error", error);
  }

  /** Nothing is passed on any more: whoever still follows leaves. */
  #end(): void {
    this.#over = true;
    this.#leave.abort();
    this.#resume?.();
    this.stdout.push(null);
    this.stderr.push(null);
    this.stdin.destroy();
  }

  #writable(): Writable {
    const send = (data: Uint8Array, end: boolean, done: (error?: Error | null) => void) => {
      this.#send(data, end).then(() => done(), (error: unknown) => done(pipeError(error)));
    };
    return new Writable({
      decodeStrings: true,
      write: (chunk: Buffer, _, done) => send(chunk, false, done),
      writev: (chunks, done) => send(Buffer.concat(chunks.map(({ chunk }) => chunk as Buffer)), false, done),
      final: (done) => send(new Uint8Array(), true, done),
    });
  }

  async #send(data: Uint8Array, end: boolean): Promise<void> {
    this.#input ??= this.#sandbox.input(await this.#started);
    await this.#input.send(data, end);
  }
}

function nameOf(number: number): NodeJS.Signals {
  return (Object.entries(constants.signals).find(([, value]) => value === number)?.[0] ?? "SIGKILL") as NodeJS.Signals;
}

/** Gives an error the code that Node's own has. */
function spawnError(error: unknown, args: string[]): Error {
  const code = isProblem(error, "not_exist") ? "ENOENT" : isProblem(error, "not_executable", "permission") ? "EACCES" : undefined;
  if (code === undefined) return error as Error;
  return Object.assign(new PodagentError((error as Error).message, { cause: error }), { code, syscall: `spawn ${args[0]}`, path: args[0] });
}

function pipeError(error: unknown): Error {
  if (!isProblem(error, "stdin_closed", "process_done")) return error as Error;
  return Object.assign(new PodagentError("the process takes no more input", { cause: error }), { code: "EPIPE" });
}
