import { Tail } from "./exec.js";

/** The beginning and the end of an output. */
export class Ends {
  readonly #limit: number;
  readonly #tail: Tail;
  readonly #head: Uint8Array[] = [];
  #headSize = 0;
  #offset = 0; // of the end
  #notes = "";

  /** Keeps so many bytes, half of them of the beginning. */
  constructor(limit: number) {
    this.#limit = Math.ceil(limit / 2);
    this.#tail = new Tail(Math.floor(limit / 2));
  }

  /** How many bytes are missing in the middle. */
  get omitted(): number {
    return this.#tail.omitted;
  }

  /** Adds a part. */
  add(data: Uint8Array): void {
    const first = data.subarray(0, this.#limit - this.#headSize);
    if (first.length > 0) {
      this.#head.push(first);
      this.#headSize += first.length;
    }
    const rest = data.subarray(first.length);
    if (rest.length > 0) this.#tail.add({ offset: this.#offset, data: rest });
    this.#offset += rest.length;
  }

  /** Adds a line that is not of the output. */
  note(line: string): void {
    this.#notes += `\n${line}\n`;
  }

  /** What is kept, as text, and what is missing. */
  text(): string {
    const decoder = new TextDecoder();
    const whole = this.omitted === 0;
    const head = this.#head.map((part) => decoder.decode(part, { stream: true })).join("") + (whole ? "" : decoder.decode());
    const tail = this.#tail.parts().map((part) => decoder.decode(part, { stream: true })).join("") + decoder.decode();
    return head + (whole ? "" : `\n[${this.omitted} bytes are left out here]\n`) + tail + this.#notes;
  }
}
