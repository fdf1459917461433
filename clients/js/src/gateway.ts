import { Connection, type GatewayOptions } from "./connection.js";
import { Sandbox } from "./sandbox.js";
import type { NewSandbox, SandboxInfo } from "./types.js";

const root = "/api/v1/sandboxes";

/** A gateway, and the sandboxes of the caller's tenant. */
export class Gateway {
  readonly #connection: Connection;

  constructor(options: GatewayOptions = {}) {
    this.#connection = new Connection(options);
  }

  /** Makes a sandbox, or gets the one that has the id. A repeated request makes no second one. */
  async create(sandbox: NewSandbox = {}): Promise<Sandbox> {
    const headers = { "idempotency-key": crypto.randomUUID() };
    const info = await this.#connection.json<SandboxInfo>("POST", root, { json: sandbox, headers, repeatable: true });
    return new Sandbox(this.#connection, info);
  }

  /** Gets a sandbox that is there. This does not wake it. */
  async attach(id: string): Promise<Sandbox> {
    const info = await this.#connection.json<SandboxInfo>("GET", `${root}/${encodeURIComponent(id)}`);
    return new Sandbox(this.#connection, info);
  }

  /** Yields what is known of all sandboxes, in the order of their names. */
  async *list(filter: { state?: SandboxInfo["state"]; label?: string } = {}): AsyncGenerator<SandboxInfo, void, undefined> {
    for (let after: string | undefined; ; ) {
      const page = await this.#connection.json<{ sandboxes: SandboxInfo[]; next?: string }>("GET", root, { query: { ...filter, after } });
      yield* page.sandboxes;
      if (page.next === undefined) return;
      after = page.next;
    }
  }

  /** Says whose the token is. */
  whoami(): Promise<{ tenant: string; key?: string }> {
    return this.#connection.json("GET", "/api/v1/whoami");
  }
}
