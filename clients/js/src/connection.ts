import { CutError, errorOf, PodagentError, ProblemError, UnreachableError } from "./errors.js";

/** How to reach a gateway. */
export interface GatewayOptions {
  /** The gateway's address; PODAGENT_GATEWAY in the environment if it is missing. */
  url?: string;
  /** The caller's token, or what gives it for each request; PODAGENT_GATEWAY_TOKEN if it is missing. */
  token?: string | (() => string | Promise<string>);
  /**
   * For how many seconds calls are repeated while no gateway answers, or while one asks to come
   * again; 60 if it is missing, and 0 for never.
   */
  patience?: number;
  /** In place of the platform's own. */
  fetch?: typeof fetch;
}

/** A request to a gateway. */
export interface Call {
  query?: { [name: string]: string | number | boolean | undefined };
  headers?: { [name: string]: string | undefined };
  /** Sent as JSON. */
  json?: unknown;
  /** Sent as it is. What comes bit by bit can be sent once: such a call must not be repeatable. */
  body?: Uint8Array<ArrayBuffer> | string | AsyncIterable<Uint8Array>;
  accept?: string;
  signal?: AbortSignal | undefined;
  /** Ends the repetitions, but not a request that is under way. */
  stop?: AbortSignal | undefined;
  /** May be sent again though it is not known whether it was done. GET, PUT and DELETE may, unless it says false. */
  repeatable?: boolean;
  /** In place of the connection's. */
  patience?: number;
}

const firstPause = 100; // milliseconds
const longestPause = 2000;

/** Sends requests to a gateway, with the caller's token. */
export class Connection {
  readonly patience: number;
  readonly #url: string;
  readonly #token: () => string | Promise<string>;
  readonly #fetch: typeof fetch;

  constructor(options: GatewayOptions = {}) {
    const env = (globalThis.process?.env ?? {}) as { [name: string]: string | undefined };
    const url = options.url ?? env["PODAGENT_GATEWAY"];
    const token = options.token ?? env["PODAGENT_GATEWAY_TOKEN"];
    if (!url) throw new PodagentError("no gateway: give its url, or set PODAGENT_GATEWAY");
    if (!token) throw new PodagentError("no token: give one, or set PODAGENT_GATEWAY_TOKEN");
    this.#url = url.replace(/\/+$/, "");
    this.#token = typeof token === "string" ? () => token : token;
    this.#fetch = options.fetch ?? fetch;
    this.patience = options.patience ?? 60;
  }

  /** Sends a request until a gateway takes it, and returns an answer of success. */
  send(method: string, path: string, call: Call = {}): Promise<Response> {
    return this.#repeat(method, call, () => this.#once(method, path, call));
  }

  /** Sends a request, and reads its answer: if that is cut off, the request is sent again, if it may be. */
  sendWhole<T>(method: string, path: string, call: Call, read: (answer: Response) => Promise<T>): Promise<T> {
    return this.#repeat(method, call, async () => whole(read(await this.#once(method, path, call))));
  }

  async #repeat<T>(method: string, call: Call, once: () => Promise<T>): Promise<T> {
    const until = Date.now() + 1000 * (call.patience ?? this.patience);
    for (let pause = firstPause; ; pause = Math.min(2 * pause, longestPause)) {
      try {
        return await once();
      } catch (error) {
        const wait = waitFor(error, call.repeatable ?? method !== "POST", pause);
        if (wait === undefined || Date.now() + wait > until) throw error;
        await delay(wait, call.signal ?? call.stop);
      }
    }
  }

  /** Sends a request, and returns the JSON of its answer. */
  async json<T>(method: string, path: string, call: Call = {}): Promise<T> {
    const text = await this.sendWhole(method, path, call, (answer) => answer.text());
    return whole(new Response(text).json() as Promise<T>);
  }

  /** Sends a request whose answer has no content. */
  async none(method: string, path: string, call: Call = {}): Promise<void> {
    const response = await this.send(method, path, call);
    await response.body?.cancel();
  }

  async #once(method: string, path: string, call: Call): Promise<Response> {
    const headers = new Headers({ authorization: `Bearer ${await this.#token()}` });
    for (const [name, value] of Object.entries(call.headers ?? {})) if (value !== undefined) headers.set(name, value);
    if (call.accept) headers.set("accept", call.accept);
    const init: RequestInit = { method, headers, redirect: "error" };
    if (call.json !== undefined) {
      headers.set("content-type", "application/json");
      init.body = JSON.stringify(call.json);
    } else if (call.body !== undefined) {
      headers.set("content-type", "application/octet-stream");
      init.body = call.body;
      init.duplex = "half"; // fetch requires it of what comes bit by bit
    }
    if (call.signal) init.signal = call.signal;
    let response: Response;
    try {
      response = await this.#fetch(this.#url + path + queryOf(call.query), init);
    } catch (error) {
      call.signal?.throwIfAborted();
      throw new UnreachableError(`no gateway answers at ${this.#url}: ${reasonOf(error)}`, { cause: error });
    }
    if (!response.ok) throw await errorOf(response);
    return response;
  }
}

/**
 * Returns after how many milliseconds a request that failed may be sent again, if it may. A
 * gateway that asks to come again has done nothing, unless it ends: then it asks so of all calls
 * that are under way.
 */
function waitFor(error: unknown, repeatable: boolean, pause: number): number | undefined {
  if (error instanceof ProblemError) {
    const perhapsDone = error.class === "unavailable" && !repeatable;
    if (error.retryAfter !== undefined && !perhapsDone && (error.status === 429 || error.status === 503)) return 1000 * error.retryAfter;
    return repeatable && error.class === "unavailable" && !error.problem.exec_id ? pause : undefined;
  }
  return error instanceof UnreachableError && repeatable ? pause : undefined;
}

/** Reports whether an answer broke off only because it had nothing to say for as long as Node's fetch waits: five minutes. */
export function wasSilent(error: unknown): boolean {
  for (let at = error as { code?: string; cause?: unknown } | undefined; at; at = at.cause as typeof at) {
    if (at.code === "UND_ERR_BODY_TIMEOUT" || at.code === "UND_ERR_HEADERS_TIMEOUT") return true;
  }
  return false;
}

/** Waits for content that may be cut off. */
export async function whole<T>(content: Promise<T>): Promise<T> {
  try {
    return await content;
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new CutError(`the answer was cut off: ${reasonOf(error)}`, { cause: error });
  }
}

/** Yields the parts of an answer's content. If its reader leaves, so does the request. */
export async function* partsOf(response: Response): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = response.body?.getReader();
  if (!reader) return;
  try {
    for (;;) {
      const { done, value } = await whole(reader.read());
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** Yields the JSON of each line of an answer. */
export async function* linesOf<T>(response: Response): AsyncGenerator<T, void, undefined> {
  const decoder = new TextDecoder();
  let rest: string[] = []; // of a line that has begun
  for await (const part of partsOf(response)) {
    const [first, ...others] = decoder.decode(part, { stream: true }).split("\n");
    rest.push(first!);
    for (const other of others) {
      const line = rest.join("");
      rest = [other];
      if (line) yield JSON.parse(line) as T;
    }
  }
}

/** Waits, unless the signal aborts it. */
export async function delay(milliseconds: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal!.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", abort, { once: true });
  });
}

/** Waits for a promise, unless the signal aborts that. What comes of it then, nobody hears. */
export async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise;
  promise.catch(() => {});
  signal.throwIfAborted();
  let abort: () => void;
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason as Error);
    signal.addEventListener("abort", abort, { once: true });
  });
  return Promise.race([promise, aborted]).finally(() => signal.removeEventListener("abort", abort));
}

function queryOf(query: Call["query"]): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) if (value !== undefined) params.set(name, String(value));
  return params.size > 0 ? `?${params}` : "";
}

function reasonOf(error: unknown): string {
  const cause = (error as { cause?: { message?: string; code?: string } }).cause;
  return cause?.message || cause?.code || (error as Error).message;
}
