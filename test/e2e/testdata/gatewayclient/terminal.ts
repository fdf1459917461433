// Talks to terminals, over a WebSocket that the document describes in words alone.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createQuerySerializer } from "openapi-fetch";
import { WebSocket } from "ws";
import type { components, paths } from "./api.js";
import type { Document } from "./check.js";

const path = "/api/v1/sandboxes/{id}/terminal";
type Query = NonNullable<paths[typeof path]["get"]["parameters"]["query"]>;
type Event = components["schemas"]["TerminalEvent"];
type Request = components["schemas"]["TerminalRequest"];

/** One connection to a terminal. */
export class Terminal {
  readonly events: Event[] = [];
  readonly #doc: Document;
  readonly #socket: WebSocket;
  readonly #output: Buffer[] = [];
  #next = -1; // the offset of the output that comes next
  #sent = 0;

  /** Connects as browsers do, which can set no header: with the token as a subprotocol. */
  constructor(doc: Document, url: string, token: string, id: string, query: Query) {
    const target = url.replace(/^http/, "ws") + path.replace("{id}", id) + "?" + createQuerySerializer<Query>()(query);
    const secret = Buffer.from(token).toString("base64url");
    this.#doc = doc;
    this.#socket = new WebSocket(target, ["podagent.terminal.v1", `podagent.token.${secret}`]);
    this.#socket.on("upgrade", (answer) => doc.answered("open-terminal", answer.statusCode!));
    this.#socket.on("message", (data: Buffer, binary) => this.#take(data, binary));
  }

  #take(data: Buffer, binary: boolean) {
    if (!binary) {
      const event = JSON.parse(data.toString()) as Event;
      this.#doc.mustBe("TerminalEvent", event);
      assert.equal(event.type === "start", this.events.length === 0, "start is the first event, and no other");
      this.events.push(event);
      return;
    }
    const offset = Number(data.readBigUInt64BE());
    if (this.#next >= 0) assert.equal(offset, this.#next, "output is missing, or comes twice");
    this.#next = offset + data.length - 8;
    this.#output.push(data.subarray(8));
  }

  get output(): string {
    return Buffer.concat(this.#output).toString();
  }

  /** Waits until something has come. */
  async until(come: () => boolean) {
    while (!come()) {
      assert.equal(this.#socket.readyState <= WebSocket.OPEN, true, `it ended: ${JSON.stringify(this.events)} ${this.output}`);
      await Promise.race([once(this.#socket, "message"), once(this.#socket, "close")]);
    }
  }

  type(text: string) {
    const input = Buffer.concat([Buffer.alloc(8), Buffer.from(text)]);
    input.writeBigUInt64BE(BigInt(this.#sent));
    this.#socket.send(input);
    this.#sent += input.length - 8;
  }

  ask(request: Request) {
    this.#doc.mustBe("TerminalRequest", request);
    this.send(JSON.stringify(request));
  }

  send(text: string) {
    this.#socket.send(text);
  }

  /** Waits for the end, and returns the last event. */
  async end(code: number): Promise<Event> {
    const [got, reason] = await once(this.#socket, "close");
    assert.equal(got, code, String(reason));
    assert.equal(this.#socket.protocol, "podagent.terminal.v1");
    return this.events.at(-1)!;
  }
}
