/**
 * A backend for deepagents: its SandboxBackendProtocolV2, over a gateway. Files are read, searched
 * and changed by the gateway's own operations; only execute runs a shell.
 *
 * What fails because of a file is a result, for the model. What fails because of the sandbox or
 * the way to it is thrown.
 *
 * @packageDocumentation
 */
import { isProblem, type ProblemError } from "./errors.js";
import { Gateway } from "./gateway.js";
import { FileError, windowOf } from "./lines.js";
import { isTextType, mimeTypeOf } from "./mime.js";
import { Ends } from "./ends.js";
import type { Sandbox } from "./sandbox.js";
import type { FileInfo as Entry, NewSandbox } from "./types.js";

/** A failure of an upload or a download, in deepagents' words. */
export type FileOperationError = "file_not_found" | "permission_denied" | "is_directory" | "invalid_path";

export interface FileInfo {
  path: string;
  is_dir?: boolean;
  size?: number;
  modified_at?: string;
}

export interface ReadResult {
  error?: string;
  content?: string | Uint8Array;
  mimeType?: string;
  totalLines?: number;
  startLine?: number;
  endLine?: number;
  nextOffset?: number;
}

export interface BackendOptions {
  /** After how many seconds a command is ended that has no timeout of its own: 1800 if it is missing; 0 for never. */
  timeout?: number;
  /** How many bytes of a command's output are given: its beginning and its end. 1 MiB if it is missing. */
  maxOutput?: number;
}

export interface NewBackend extends BackendOptions {
  /** The gateway; the one of the environment if it is missing. */
  gateway?: Gateway;
  /** What the sandbox is made with. */
  sandbox?: NewSandbox;
  /** Files to write before anything else, by their paths. */
  initialFiles?: { [path: string]: string | Uint8Array };
}

const searchLimit = 10_000; // results
const binaryLimit = 10 << 20; // bytes: deepagents gives a model no more
const atOnce = 8; // files
// What the kernel makes up is not searched from the root, where a search would never end.
const madeUp = ["/proc/", "/sys/", "/dev/"];

/** A sandbox as a backend of deepagents. */
export class SandboxBackend {
  readonly id: string;
  /** The sandbox, for what the backend has no method for. */
  readonly sandbox: Sandbox;
  readonly #timeout: number;
  readonly #maxOutput: number;
  #workdir: string | undefined;
  #running = true;

  constructor(sandbox: Sandbox, options: BackendOptions = {}) {
    this.id = sandbox.id;
    this.sandbox = sandbox;
    this.#timeout = options.timeout ?? 1800;
    this.#maxOutput = options.maxOutput ?? 1 << 20;
    this.#workdir = sandbox.workdir;
  }

  /** Makes a sandbox, or gets the one that has the id, and writes the initial files. */
  static async create(options: NewBackend = {}): Promise<SandboxBackend> {
    const gateway = options.gateway ?? new Gateway();
    const backend = new SandboxBackend(await gateway.create(options.sandbox), options);
    try {
      await inParallel(Object.entries(options.initialFiles ?? {}), ([path, content]) => backend.sandbox.write(path, content));
    } catch (error) {
      if (options.sandbox?.id === undefined) await backend.close().catch(() => {});
      throw error;
    }
    return backend;
  }

  /** Takes a sandbox that is there. */
  static async attach(id: string, options: BackendOptions & { gateway?: Gateway } = {}): Promise<SandboxBackend> {
    return new SandboxBackend(await (options.gateway ?? new Gateway()).attach(id), options);
  }

  /** Reports whether {@link close} has yet to be called. */
  get isRunning(): boolean {
    return this.#running;
  }

  /** Ends the sandbox, and removes it with its files. */
  async close(): Promise<void> {
    if (!this.#running) return;
    this.#running = false;
    await this.sandbox.delete();
  }

  /**
   * Runs a shell command in the workdir. Standard output and standard error are one, in their
   * order. After timeout seconds the command is ended, with all that it started; 0 means never.
   */
  async execute(command: string, options: { timeout?: number; signal?: AbortSignal } = {}): Promise<{ output: string; exitCode: number | null; truncated: boolean }> {
    const timeout = options.timeout ?? this.#timeout;
    const output = new Ends(this.#maxOutput);
    // On the first line, so that the lines that bash names in its messages are right.
    const stream = this.sandbox.stream({ script: `exec 2>&1; ${command}`, timeout, ...(options.signal && { signal: options.signal }) });
    for await (const event of stream) {
      if (event.type === "stdout" || event.type === "stderr") output.add(event.data);
      if (event.type !== "exit") continue;
      if (event.exit.reason === "timed out") output.note(`[The command was ended after ${timeout} s]`);
      if (event.exit.reason === "out of memory") output.note("[The command was ended because memory ran out]");
      return { output: output.text(), exitCode: event.exit.code < 0 ? null : event.exit.code, truncated: output.omitted > 0 };
    }
    throw new Error("the output of a command has no end");
  }

  /** Lists a directory. One that does not exist is empty. */
  async ls(path: string): Promise<{ error?: string; files?: FileInfo[] }> {
    try {
      const { entries } = await this.sandbox.list(path);
      return { files: await inParallel(entries, (entry) => this.#infoOf(entry)) };
    } catch (error) {
      return isProblem(error, "not_exist") ? { files: [] } : { error: messageOf(error, path) };
    }
  }

  /** Reads lines of a text, from the 0-based offset on, or the whole of an image and the like. */
  async read(path: string, offset = 0, limit = 500): Promise<ReadResult> {
    const mimeType = mimeTypeOf(path);
    try {
      if (!isTextType(mimeType)) return { content: await this.#readBinary(path), mimeType };
      return { ...(await windowOf(this.sandbox.readParts(path), offset, limit)), mimeType };
    } catch (error) {
      return { error: messageOf(error, path) };
    }
  }

  /** Reads a whole file. */
  async readRaw(path: string): Promise<{ error?: string; data?: { content: string | Uint8Array; mimeType: string; created_at: string; modified_at: string } }> {
    const mimeType = mimeTypeOf(path);
    try {
      const [content, { mtime }] = await Promise.all([this.sandbox.read(path), this.sandbox.stat(path, true)]);
      return { data: { content: isTextType(mimeType) ? new TextDecoder().decode(content) : content, mimeType, created_at: mtime, modified_at: mtime } };
    } catch (error) {
      return { error: messageOf(error, path) };
    }
  }

  /** Makes or replaces a file. The content of an image and the like is base64. */
  async write(path: string, content: string): Promise<{ error?: string; path?: string; filesUpdate?: null }> {
    try {
      await this.sandbox.write(path, isTextType(mimeTypeOf(path)) ? content : Uint8Array.from(atob(content), (c) => c.charCodeAt(0)));
      return { path, filesUpdate: null };
    } catch (error) {
      if (error instanceof DOMException) return { error: `Cannot write '${path}': its content must be base64` };
      return { error: messageOf(error, path) };
    }
  }

  /** Replaces a text, which must be there exactly once unless all are to be replaced. */
  async edit(path: string, oldString: string, newString: string, replaceAll = false): Promise<{ error?: string; path?: string; filesUpdate?: null; occurrences?: number }> {
    try {
      const occurrences = await this.#replace(path, oldString, newString, replaceAll);
      return { path, filesUpdate: null, occurrences };
    } catch (error) {
      return { error: messageOf(error, path) };
    }
  }

  /** Finds a text in files. With path missing it searches the workdir. */
  async grep(pattern: string, path?: string | null, glob?: string | null, maxCount?: number | null): Promise<{ error?: string; matches?: { path: string; line: number; text: string }[]; truncated?: boolean }> {
    const dir = path ?? (await this.#root());
    const search = this.sandbox.grep(pattern, {
      paths: [dir], fixed: true, hidden: true, no_ignore: true, sort: true, limit: maxCount ?? searchLimit,
      ...(glob && { include: [glob] }), ...(dir === "/" && { exclude: madeUp }),
    });
    try {
      const matches = await search.all();
      return { matches: matches.map(({ path, line, text }) => ({ path, line, text })), truncated: search.end.truncated };
    } catch (error) {
      return isProblem(error, "not_exist") ? { matches: [] } : { error: messageOf(error, dir) };
    }
  }

  /**
   * Finds files and directories by a pattern. The paths are relative to path, as those of
   * deepagents' own sandboxes are; with path missing it searches the workdir, and they are absolute.
   */
  async glob(pattern: string, path?: string): Promise<{ error?: string; files?: FileInfo[]; truncated?: boolean }> {
    const dir = path ?? (await this.#root());
    const anchored = pattern.startsWith("/") && dir !== "/" && !pattern.startsWith(dir.replace(/\/*$/, "/"));
    const search = this.sandbox.glob(anchored ? pattern.slice(1) : pattern, { dir, limit: searchLimit });
    const prefix = path === undefined ? dir.replace(/\/*$/, "/") : "";
    try {
      const matches = (await search.all()).filter((match) => dir !== "/" || !madeUp.some((of) => `/${match.path}/`.startsWith(of)));
      const files = matches.map((match) => ({ path: match.path.startsWith("/") ? match.path : prefix + match.path, is_dir: match.type === "directory" }));
      return { files, truncated: search.end.truncated };
    } catch (error) {
      return isProblem(error, "not_exist") ? { files: [] } : { error: messageOf(error, dir) };
    }
  }

  /** Removes a file, or a directory with all that is in it. */
  async delete(path: string): Promise<{ error?: string; path?: string; filesUpdate?: null }> {
    try {
      await this.sandbox.stat(path); // which tells that there is none; a removal would not
      await this.sandbox.remove(path, true);
      return { path, filesUpdate: null };
    } catch (error) {
      return { error: messageOf(error, path) };
    }
  }

  /** Writes files as they are. A result tells of each, in their order. */
  async uploadFiles(files: [string, Uint8Array][]): Promise<{ path: string; error: FileOperationError | null }[]> {
    return inParallel(files, async ([path, content]) => {
      try {
        await this.sandbox.write(path, content);
        return { path, error: null };
      } catch (error) {
        return { path, error: operationError(error) };
      }
    });
  }

  /** Reads files as they are. A result has each, in their order. */
  async downloadFiles(paths: string[]): Promise<{ path: string; content: Uint8Array | null; error: FileOperationError | null }[]> {
    return inParallel(paths, async (path) => {
      try {
        return { path, content: await this.sandbox.read(path), error: null };
      } catch (error) {
        return { path, content: null, error: operationError(error) };
      }
    });
  }

  async #root(): Promise<string> {
    this.#workdir ??= (await this.sandbox.info()).workdir ?? "/";
    return this.#workdir;
  }

  /** Describes an entry of a list: a link as what it leads to. */
  async #infoOf(entry: Entry): Promise<FileInfo> {
    const path = entry.path ?? new TextDecoder().decode(Uint8Array.from(atob(entry.path_base64 ?? ""), (c) => c.charCodeAt(0)));
    const of = entry.type === "symlink" ? await this.sandbox.stat(path, true).catch(() => entry) : entry;
    const is_dir = of.type === "directory";
    return { path: is_dir ? `${path}/` : path, is_dir, size: of.size, modified_at: of.mtime };
  }

  async #readBinary(path: string): Promise<Uint8Array> {
    const { size } = await this.sandbox.stat(path, true);
    if (size > binaryLimit) throw new FileError(`'${path}' is too large to read: it has ${size} bytes, and ${binaryLimit} is the most`);
    return this.sandbox.read(path);
  }

  async #replace(path: string, oldString: string, newString: string, all: boolean): Promise<number> {
    if (oldString === "") return this.#fillEmpty(path, newString);
    if (oldString !== newString) return (await this.sandbox.edit(path, [{ old: oldString, new: newString, all }]))[0]!;
    const text = new TextDecoder().decode(await this.sandbox.read(path));
    if (!text.includes(oldString)) throw new FileError(`String not found in file '${path}'`);
    return 1;
  }

  /** An edit of nothing makes the content of an empty file. */
  async #fillEmpty(path: string, content: string): Promise<number> {
    const { size, etag } = await this.sandbox.stat(path, true);
    if (size > 0) throw new FileError("The old string must not be empty unless the file is");
    if (content === "") return 0;
    await this.sandbox.write(path, content, etag === undefined ? {} : { ifMatch: etag });
    return 1;
  }
}

const fileClasses = [
  "not_exist", "exist", "permission", "is_directory", "not_directory", "not_empty", "not_regular", "read_only", "no_space", "quota",
  "too_large", "busy", "name_too_long", "loop", "cross_device", "changed", "edit", "pattern", "protected", "invalid", "io",
] as const;

/** Says what is wrong with a file. Other errors are thrown again. */
function messageOf(error: unknown, path: string): string {
  if (error instanceof FileError) return error.message;
  if (!isProblem(error, ...fileClasses)) throw error;
  switch (error.class) {
    case "not_exist":
      return `File '${path}' not found`;
    case "edit":
      return editMessage(error, path);
    default:
      return `${error.problem.detail}: '${path}'`;
  }
}

function editMessage({ problem }: ProblemError, path: string): string {
  if (problem.detail.includes("not found")) return `String not found in file '${path}': ${problem.detail}`;
  return `Multiple occurrences in '${path}': ${problem.detail}. Replace all, or give more of the text around it`;
}

function operationError(error: unknown): FileOperationError {
  if (isProblem(error, "not_exist")) return "file_not_found";
  if (isProblem(error, "permission", "read_only", "protected")) return "permission_denied";
  if (isProblem(error, "is_directory")) return "is_directory";
  if (isProblem(error, "invalid", "name_too_long", "not_directory", "loop", "not_regular")) return "invalid_path";
  throw error;
}

/** Does the same to all items, to some at once, and returns what comes of them in their order. */
async function inParallel<T, R>(items: T[], act: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const rest = items.entries();
  const work = async () => {
    for (const [i, item] of rest) results[i] = await act(item);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, work));
  return results;
}
