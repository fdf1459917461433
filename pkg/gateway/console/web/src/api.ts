// The REST API of the gateway, through the console, which adds the session's token.

const base = "/console/api/v1";

export interface Sandbox {
  id: string;
  state: "running" | "stopped" | "pending" | "ended" | "paused" | "terminating";
  workdir?: string;
  created_at?: string;
  expires_at?: string;
  labels?: Record<string, string>;
  public_ports?: number[] | null;
  all_public?: boolean;
  auto_pause?: boolean;
  allow_hosts?: string[];
}

export interface Exit {
  reason: string;
  code: number;
  signal?: number;
  wall_ms: number;
}

export interface Process {
  exec_id: string;
  pid: number;
  started_at: string;
  args?: string[];
  script?: string;
  stdout_bytes: number;
  stderr_bytes: number;
  terminal?: boolean;
  exit?: Exit;
}

export interface File {
  type: "file" | "directory" | "symlink" | "fifo" | "socket" | "device";
  size: number;
  mode: string;
  mtime: string;
  path?: string;
  path_base64?: string;
  target?: string;
}

export type Stats = Record<string, number | undefined>;

/** Problem is why a call failed, in the gateway's words. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly kind: string,
    text: string,
  ) {
    super(text);
  }
}

/** signedOut is called when the session is over. */
export const session = { signedOut: () => {} };

/** send sends a request, and returns its answer if it is a success. */
export async function send(method: string, path: string, init: RequestInit = {}): Promise<Response> {
  const answer = await fetch(path.startsWith("/console/") ? path : base + path, { ...init, method, cache: "no-store", redirect: "error" });
  if (answer.ok) return answer;
  const problem = await answer.json().catch(() => ({}));
  if (answer.status === 401 && !path.startsWith("/console/")) session.signedOut();
  throw new Problem(answer.status, problem.class ?? "", problem.detail ?? `the gateway answers ${answer.status}`);
}

/** get returns what a GET answers. */
export const get = async <T>(path: string, signal?: AbortSignal): Promise<T> => (await send("GET", path, { signal })).json();

/** post sends JSON, and returns what the answer has of it. */
export async function post<T>(path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const json = body === undefined ? {} : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  const answer = await send("POST", path, { ...json, signal });
  const text = await answer.text();
  return (text ? JSON.parse(text) : undefined) as T;
}

/** of is the path of a sandbox's operation. */
export const of = (id: string, rest = "") => "/sandboxes/" + encodeURIComponent(id) + rest;

/** url is where a browser finds an operation by itself, for links and WebSockets. */
export const url = (path: string) => base + path;

/** lines reads an answer line by line, as it comes. */
export async function* lines(answer: Response): AsyncGenerator<string> {
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n");
      rest = parts.pop()!;
      yield* parts;
    }
  } finally {
    void reader.cancel().catch(() => {});
  }
}

/** sandboxes returns all of the tenant's. */
export async function sandboxes(signal: AbortSignal): Promise<Sandbox[]> {
  const all: Sandbox[] = [];
  for (let after = ""; ; ) {
    const page = await get<{ sandboxes: Sandbox[]; next?: string }>("/sandboxes" + (after && "?after=" + encodeURIComponent(after)), signal);
    all.push(...page.sandboxes);
    if (!page.next) return all;
    after = page.next;
  }
}
