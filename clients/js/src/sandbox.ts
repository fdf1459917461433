import { type Connection, partsOf } from "./connection.js";
import { bodyOf, type ExecOptions, type ExecResult, Input, Output, type StreamOptions, Tail } from "./exec.js";
import { newExecKey } from "./execkey.js";
import { Search } from "./search.js";
import { textOf } from "./text.js";
import type {
  Checkpoint, CheckpointOptions, Command, Difference, Edit, Exit, FileInfo, GlobMatch, GlobOptions, GrepLine, GrepOptions, NewCheckpoint, OutputEvent,
  Restored, SandboxInfo,
} from "./types.js";

const defaultOutput = 1 << 20; // bytes of each output

/**
 * A sandbox. Relative paths start in its workdir. A call that works in a sandbox that sleeps
 * wakes it first.
 */
export class Sandbox {
  /** The sandbox's name, unique among the tenant's. */
  readonly id: string;
  /** Where relative paths start and commands run, if that was known when it was made or attached to. */
  readonly workdir: string | undefined;
  readonly #connection: Connection;
  readonly #root: string;

  /** Gateways make it. */
  constructor(connection: Connection, info: SandboxInfo) {
    this.id = info.id;
    this.workdir = info.workdir;
    this.#connection = connection;
    this.#root = `/api/v1/sandboxes/${encodeURIComponent(info.id)}`;
  }

  /** Describes the sandbox as it is now. This does not wake it. */
  info(): Promise<SandboxInfo> {
    return this.#connection.json("GET", this.#root);
  }

  /** Ends the sandbox, and removes it with its files. */
  delete(): Promise<void> {
    return this.#connection.none("DELETE", this.#root);
  }

  /** Ends its pod, and keeps its files, if it was made to keep them. */
  pause(): Promise<void> {
    return this.#connection.none("POST", `${this.#root}/pause`);
  }

  /** Gives a paused sandbox a pod. */
  resume(): Promise<SandboxInfo> {
    return this.#connection.json("POST", `${this.#root}/resume`, { repeatable: true });
  }

  /** Lets it live so many seconds longer, and returns when it ends itself. */
  async extend(seconds: number): Promise<Date> {
    const { expires_at } = await this.#connection.json<{ expires_at: string }>("POST", `${this.#root}/extend`, { json: { additional_seconds: seconds } });
    return new Date(expires_at);
  }

  /** Reads a file as a whole. */
  async read(path: string): Promise<Uint8Array> {
    const read = async (answer: Response) => new Uint8Array(await answer.arrayBuffer());
    return this.#connection.sendWhole("GET", `${this.#root}/files`, { query: { path } }, read);
  }

  /** Yields the content of a file as it comes. */
  async *readParts(path: string): AsyncGenerator<Uint8Array, void, undefined> {
    yield* partsOf(await this.#connection.send("GET", `${this.#root}/files`, { query: { path } }));
  }

  /**
   * Makes or replaces a file, as a whole or not at all, with the directories that are missing.
   * ifMatch is the etag that the file must have; ifNoneMatch "*" says that there must be none.
   */
  async write(path: string, content: string | Uint8Array, options: { mode?: string; ifMatch?: string; ifNoneMatch?: "*" } = {}): Promise<void> {
    const headers = { "if-match": options.ifMatch, "if-none-match": options.ifNoneMatch };
    const body = typeof content === "string" ? new TextEncoder().encode(content) : new Uint8Array(content);
    const repeatable = options.ifMatch === undefined && options.ifNoneMatch === undefined;
    await this.#connection.none("PUT", `${this.#root}/files`, { query: { path, mode: options.mode, parents: true }, headers, body, repeatable });
  }

  /** Replaces texts in a file, all or none, and returns how often each edit replaced its own. */
  async edit(path: string, edits: Edit[]): Promise<number[]> {
    const { occurrences } = await this.#connection.json<{ occurrences: number[] }>("POST", `${this.#root}/files/edit`, { json: { path, edits } });
    return occurrences;
  }

  /** Describes a file; with follow what a symbolic link leads to. */
  stat(path: string, follow = false): Promise<FileInfo> {
    return this.#connection.json("GET", `${this.#root}/files/stat`, { query: { path, follow } });
  }

  /** Lists a directory, up to 10000 entries; truncated says that there are more. */
  list(path: string, recursive = false): Promise<{ entries: FileInfo[]; truncated: boolean }> {
    return this.#connection.json("GET", `${this.#root}/files/list`, { query: { path, recursive } });
  }

  /** Makes a directory, with those above it; it may be there. */
  mkdir(path: string): Promise<void> {
    return this.#connection.none("POST", `${this.#root}/files/mkdir`, { json: { path, parents: true }, repeatable: true });
  }

  /** Renames a file or a directory. */
  move(from: string, to: string, replace = false): Promise<void> {
    return this.#connection.none("POST", `${this.#root}/files/move`, { json: { from, to, replace } });
  }

  /** Removes a file; with recursive a directory with all that is in it. */
  remove(path: string, recursive = false): Promise<void> {
    return this.#connection.none("DELETE", `${this.#root}/files`, { query: { path, recursive }, repeatable: false });
  }

  /** Finds files by their names, by a pattern such as src/**\/*.go. */
  glob(pattern: string, options: GlobOptions = {}): Search<GlobMatch> {
    const answer = () => this.#connection.send("GET", `${this.#root}/glob`, { query: { pattern, ...options } });
    return new Search(answer, (line, path) => ({ path, type: line.type as GlobMatch["type"] }));
  }

  /** Finds lines in files, by a regular expression or, with fixed, a text. */
  grep(pattern: string, options: GrepOptions = {}): Search<GrepLine> {
    const answer = () => this.#connection.send("POST", `${this.#root}/grep`, { json: { pattern, ...options }, repeatable: true });
    return new Search(answer, (line, path) => ({
      type: line.type as GrepLine["type"],
      path,
      line: line.line ?? 0,
      text: textOf(line.text, line.text_base64),
    }));
  }

  /** Keeps the state of the files in the workdir. Commands may run meanwhile. */
  checkpoint(options: CheckpointOptions = {}): Promise<NewCheckpoint> {
    return this.#connection.json("POST", `${this.#root}/checkpoints`, { json: options });
  }

  /** Lists the checkpoints, the oldest first. */
  async checkpoints(): Promise<Checkpoint[]> {
    const { checkpoints } = await this.#connection.json<{ checkpoints: Checkpoint[] }>("GET", `${this.#root}/checkpoints`);
    return checkpoints;
  }

  /** Finds how the files differ from a checkpoint: as they are now, or as they are in the checkpoint to. */
  diff(checkpoint: string, options: { to?: string; text?: boolean } = {}): Search<Difference> {
    const answer = () => this.#connection.send("GET", `${this.#checkpoint(checkpoint)}/diff`, { query: options });
    return new Search(answer, (line, path) => ({
      path,
      how: line.how!,
      directory: line.directory ?? false,
      ...((line.diff ?? line.diff_base64) !== undefined && { diff: textOf(line.diff, line.diff_base64) }),
      ...(line.no_diff !== undefined && { noDiff: line.no_diff }),
    }));
  }

  /**
   * Makes the files what they were in a checkpoint, or only some paths, each with all that is below it. Once it
   * has begun to change files, it goes on if the connection breaks.
   */
  restore(checkpoint: string, paths: string[] = []): Promise<Restored> {
    return this.#connection.json("POST", `${this.#checkpoint(checkpoint)}/restore`, { json: { paths } });
  }

  /** Removes a checkpoint, and what only it has. The files in the workdir stay. */
  removeCheckpoint(checkpoint: string): Promise<void> {
    return this.#connection.none("DELETE", this.#checkpoint(checkpoint), { repeatable: false });
  }

  /** Yields a checkpoint as one file, as it comes. */
  async *exportCheckpoint(checkpoint: string): AsyncGenerator<Uint8Array, void, undefined> {
    yield* partsOf(await this.#connection.send("GET", `${this.#checkpoint(checkpoint)}/export`));
  }

  /** Gets a checkpoint from a file that was exported. The files in the workdir stay as they are until a restore. */
  importCheckpoint(file: Uint8Array | AsyncIterable<Uint8Array>): Promise<Checkpoint> {
    const whole = file instanceof Uint8Array;
    const body = whole ? new Uint8Array(file) : file;
    return this.#connection.json("POST", `${this.#root}/checkpoints/import`, { body, repeatable: whole });
  }

  /** Runs a command, and returns how it ended, whatever its exit code. */
  async exec(options: ExecOptions): Promise<ExecResult> {
    const outputs = { stdout: new Tail(options.maxOutput ?? defaultOutput), stderr: new Tail(options.maxOutput ?? defaultOutput) };
    let exit: Exit | undefined;
    for await (const event of this.stream(options)) {
      if (event.type === "exit") exit = event.exit;
      else if (event.type !== "start") outputs[event.type].add(event);
    }
    const { stdout, stderr } = outputs;
    return { ...exit!, stdout: stdout.text(), stderr: stderr.text(), stdoutOmitted: stdout.omitted, stderrOmitted: stderr.omitted };
  }

  /**
   * Runs a command, and yields its output as it comes. If the connection is lost, it goes on where
   * it was, without a byte lost or doubled. Who leaves before the exit ends the command.
   */
  stream(options: StreamOptions): AsyncGenerator<OutputEvent, void, undefined> {
    return new Output(this.#connection, this.#root, { signal: options.signal }).run(options);
  }

  /** Starts a command that runs on, and returns its exec id. With openStdin, its input comes by {@link input}. */
  async start(command: Command, openStdin = false): Promise<string> {
    const json = { ...bodyOf(command), detach: true, open_stdin: openStdin };
    const { exec_id } = await this.#connection.json<{ exec_id: string }>("POST", `${this.#root}/exec`, {
      json, headers: { "idempotency-key": newExecKey() }, repeatable: true,
    });
    return exec_id;
  }

  /** Yields the output of a command that runs, or has run, from offsets on up to its end. Who leaves lets it run. */
  output(execId: string, from: { stdout?: number; stderr?: number; signal?: AbortSignal } = {}): AsyncGenerator<OutputEvent, void, undefined> {
    return new Output(this.#connection, this.#root, { execId, ...from }).attach();
  }

  /** The standard input of a command that was started with open input, from its beginning. */
  input(execId: string): Input {
    return new Input(this.#connection, this.#root, execId);
  }

  /**
   * Sends a signal, by its number on Linux, to a command and all that it started. If it is repeatable, it is sent
   * again while no gateway answers, though the command may have got it, until stop aborts that.
   */
  signal(execId: string, signal: number, options: { repeatable?: boolean; stop?: AbortSignal } = {}): Promise<void> {
    return this.#connection.none("POST", `${this.#root}/processes/${encodeURIComponent(execId)}/signal`, { json: { signal }, ...options });
  }

  #checkpoint(id: string): string {
    return `${this.#root}/checkpoints/${encodeURIComponent(id)}`;
  }
}
