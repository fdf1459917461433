// The REST API of the gateway, through the console, which adds the session's token.

const base = "/console/api/v1";

export interface Sandbox {
  id: string;
  state: "running" | "stopped" | "pending" | "ended" | "paused" | "terminating";
  workdir?: string;
  created_at?: string;
  expires_at?: string;
  owner?: { tenant: string; key?: string };
  pool?: string;
  idle_for_seconds?: number; // if it was asked for
  labels?: Record<string, string>;
  public_ports?: number[] | null;
  all_public?: boolean;
  auto_pause?: boolean;
  allow_hosts?: string[];
}

export interface PodEvent {
  time: string;
  count: number;
  warning?: boolean;
  reason: string;
  message: string;
}

export interface ListeningPort {
  port: number;
  addresses: string[];
  pid: number;
  name?: string;
  exec_id?: string;
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

export interface SSH {
  host?: string;
  port: number;
  host_keys: string[];
}

/** session has what is called when it is over, whether the gateway's sandboxes can be paused, and how SSH reaches them. */
export const session: { signedOut: () => void; canPause: boolean; ssh?: SSH } = { signedOut: () => {}, canPause: false };

// pauses are how long it takes until a call is made again whose connection broke, in milliseconds. Browsers break all
// of HTTP/2 when the machine gets or loses a network, which each container on it is, too.
const pauses = [200, 500, 1500];

/** Call is a request. One that repeats may be made twice: all but those with POST are. */
interface Call extends RequestInit {
  repeats?: boolean;
}

/** reach sends a request until there is an answer, and says how many times it was sent. */
async function reach(url: string, { repeats, ...init }: Call): Promise<[Response, number]> {
  for (let times = 1; ; times++) {
    try {
      return [await fetch(url, init), times];
    } catch (e) {
      if (!(e instanceof TypeError) || init.signal?.aborted) throw e;
      const pause = pauses[times - 1];
      if (!repeats || pause === undefined) throw new Error("The gateway cannot be reached, or the connection broke.");
      await new Promise((r) => setTimeout(r, pause));
    }
  }
}

/** send sends a request, and returns its answer if it is a success. */
export async function send(method: string, path: string, init: Call = {}): Promise<Response> {
  const [answer, times] = await reach(path.startsWith("/console/") ? path : base + path, { repeats: method !== "POST", ...init, method, cache: "no-store", redirect: "error" });
  if (answer.ok || (method === "DELETE" && times > 1 && answer.status === 404)) return answer;
  const problem = await answer.json().catch(() => ({}));
  if (answer.status === 401 && !path.startsWith("/console/")) session.signedOut();
  throw new Problem(answer.status, problem.class ?? "", problem.detail ?? `the gateway answers ${answer.status}`);
}

/** get returns what a GET answers. */
export const get = async <T>(path: string, signal?: AbortSignal): Promise<T> => (await send("GET", path, { signal })).json();

/** post sends JSON, and returns what the answer has of it. It repeats if it has the same effect twice, or a key. */
export async function post<T>(path: string, body?: unknown, signal?: AbortSignal, { repeats, key }: { repeats?: boolean; key?: string } = {}): Promise<T> {
  const headers = { ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...(key ? { "Idempotency-Key": key } : {}) };
  const answer = await send("POST", path, { body: body === undefined ? null : JSON.stringify(body), headers, signal, repeats: repeats || !!key });
  const text = await answer.text();
  return (text ? JSON.parse(text) : undefined) as T;
}

/** of is the path of a sandbox's operation. */
export const of = (id: string, rest = "") => "/sandboxes/" + encodeURIComponent(id) + rest;

/** url is where a browser finds an operation by itself, for links and WebSockets. */
export const url = (path: string) => base + path;

/** uuid7 is an id that says when it was made (RFC 9562). */
export function uuid7(): string {
  const b = crypto.getRandomValues(new Uint8Array(16));
  new DataView(b.buffer).setBigUint64(0, (BigInt(Date.now()) << 16n) | BigInt((b[6]! << 8) | b[7]!));
  b[6] = (b[6]! & 0x0f) | 0x70;
  b[8] = (b[8]! & 0x3f) | 0x80;
  return Array.from(b, (x, i) => ([4, 6, 8, 10].includes(i) ? "-" : "") + x.toString(16).padStart(2, "0")).join("");
}

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
export async function sandboxes(signal: AbortSignal, idle = false): Promise<Sandbox[]> {
  const all: Sandbox[] = [];
  for (let after = ""; ; ) {
    const page = await get<{ sandboxes: Sandbox[]; next?: string }>(`/sandboxes?idle=${idle}` + (after && "&after=" + encodeURIComponent(after)), signal);
    all.push(...page.sandboxes);
    if (!page.next) return all;
    after = page.next;
  }
}
