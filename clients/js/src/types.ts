/** What a gateway's operations take and give, as its openapi.json describes it. */

/** What a sandbox is made with. All of it may be missing. */
export interface NewSandbox {
  /** The sandbox's name; made up if it is missing. A create that repeats it gets the same sandbox. */
  id?: string;
  image?: string;
  pool?: string;
  /** Quantities of Kubernetes, such as "500m" and "2Gi". */
  cpu?: string;
  memory?: string;
  storage?: string;
  /** The environment of commands, as NAME=VALUE. */
  env?: string[];
  labels?: { [name: string]: string };
  /** Keep its files when its pod ends, so that it can be paused. */
  keep?: boolean;
  /** Keep its files, pause when it has been idle for idle_seconds, and resume for a call that works in it. */
  auto_pause?: boolean;
  idle?: "all" | "calls";
  idle_seconds?: number;
  lifetime_seconds?: number;
  git?: { url: string; ref?: string; username?: string; password?: string };
  public_ports?: number[];
  /** Anybody may call any port. */
  all_public?: boolean;
  volumes?: { name: string; path?: string; mount: string; read_only?: boolean }[];
}

export interface SandboxInfo {
  id: string;
  state: "running" | "stopped" | "pending" | "ended" | "paused" | "terminating";
  workdir?: string;
  created_at?: string;
  expires_at?: string;
  labels?: { [name: string]: string };
  /** Who made it, as whoami says it; missing in the answers of create and resume. */
  owner?: { tenant: string; key?: string };
  /** The pool that its pod was taken out of. */
  pool?: string;
  auto_pause?: boolean;
  public_ports?: number[];
  all_public?: boolean;
  /** What keeps it from the gateway's machine, if that runs it. */
  isolation?: "namespaces" | "landlock" | "none";
}

export type FileType = "file" | "directory" | "symlink" | "fifo" | "socket" | "device";

export interface FileInfo {
  /** Missing if it is not UTF-8: then path_base64 has it. */
  path?: string;
  path_base64?: string;
  type: FileType;
  /** In bytes. */
  size: number;
  /** The permissions, in octal. */
  mode: string;
  mtime: string;
  uid: number;
  gid: number;
  etag?: string;
  /** What a symbolic link names. */
  target?: string;
}

export interface GlobMatch {
  path: string;
  type: FileType;
}

export interface GlobOptions {
  /** Where a relative pattern starts: the workdir unless said otherwise. */
  dir?: string;
  limit?: number;
  sort?: "name" | "time" | "none";
  ignore?: boolean;
  no_hidden?: boolean;
}

export interface GrepOptions {
  paths?: string[];
  fixed?: boolean;
  ignore_case?: boolean;
  word?: boolean;
  multiline?: boolean;
  include?: string[];
  exclude?: string[];
  before?: number;
  after?: number;
  max_per_file?: number;
  limit?: number;
  hidden?: boolean;
  no_ignore?: boolean;
  sort?: boolean;
}

export interface GrepLine {
  type: "match" | "context";
  path: string;
  /** The line's number, from 1. */
  line: number;
  /** The line without its end; at most 4 KiB of it. */
  text: string;
}

/** The end of a search: what else there is to know about its results. */
export interface SearchEnd {
  /** There are more results. */
  truncated: boolean;
  /** What could not be read, and why. */
  skipped: string[];
}

export interface Edit {
  old: string;
  new: string;
  /** Replace it wherever it is, not only if it is there exactly once. */
  all?: boolean;
}

/** A state of the files in the workdir. */
export interface Checkpoint {
  /** A hash of what it consists of. Keep it: by it a restore notices if commands have changed the checkpoint. */
  id: string;
  name?: string;
  /** It goes with those without a name. */
  automatic?: boolean;
  time: string;
  /** How many it has, without directories. */
  files: number;
  /** The sum of their sizes. */
  bytes: number;
  /** How much was written for it. */
  stored_bytes: number;
}

/** A path that a call left as it is, and why. */
export interface LeftPath {
  /** Missing if it is not UTF-8: then path_base64 has it. */
  path?: string;
  path_base64?: string;
  why?: string;
}

export interface CheckpointOptions {
  /** What it is called, for people. */
  name?: string;
  /** A program makes it at each step: it goes with those without a name. */
  automatic?: boolean;
  /** Globs of files that it does not have, and that a restore leaves alone. */
  exclude?: string[];
}

export interface NewCheckpoint extends Checkpoint {
  /** Files that it lacks, such as sockets and what cannot be read. */
  left_out: LeftPath[];
  /** How many others. */
  more_left_out?: number;
  /** Files that changed whenever they were read. */
  moving: LeftPath[];
  /** How many others. */
  more_moving?: number;
}

/** What came of a restore. */
export interface Restored {
  /** What was there before: a restore of it undoes this one. */
  before: Checkpoint;
  /** How many files, directories and links were made, replaced, changed or removed. */
  changed: number;
  /** What is not as in the checkpoint; none if all is. */
  kept: LeftPath[];
  /** How many others. */
  more_kept?: number;
}

/** A path that differs from a checkpoint. */
export interface Difference {
  path: string;
  /** What is changed has another mode, owner or time alone. */
  how: "added" | "removed" | "modified" | "retyped" | "changed" | "unreadable";
  directory: boolean;
  /** A unified diff, if one was asked for and there is one. */
  diff?: string;
  /** Why there is none. */
  noDiff?: string;
}

/** A command: args without a shell, or a script for bash. */
export interface Command {
  args?: string[];
  script?: string;
  dir?: string;
  /** In addition to the sandbox's environment. */
  env?: { [name: string]: string };
  /** Ends the command, with all that it started, after so many seconds; 0 means never. */
  timeout?: number;
}

/** How a command ended. */
export interface Exit {
  exec_id: string;
  reason: "exited" | "signalled" | "timed out" | "out of memory" | "agent lost";
  /** The exit code; 128 + N for signal N; -1 if the agent was lost. */
  code: number;
  /** The number of the signal that ended it. */
  signal?: number;
  wall_ms: number;
  user_ms: number;
  system_ms: number;
  max_rss_bytes: number;
}

/** A part of what a command does. An exit is the last. */
export type OutputEvent =
  | { type: "start"; execId: string }
  | { type: "stdout" | "stderr"; offset: number; data: Uint8Array }
  | { type: "exit"; exit: Exit };
