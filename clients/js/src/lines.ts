/** What a model is told about a file. */
export class FileError extends Error {}

/** A window of lines. The fields are those of deepagents. */
export interface Window {
  content: string;
  totalLines?: number;
  startLine?: number;
  endLine?: number;
  nextOffset?: number;
}

const windowLimit = 10 << 20; // bytes
const countLimit = 1 << 20; // bytes up to which lines after the window are counted

/** Reads limit lines from the 0-based offset on, and no more of a large file than it must. */
export async function windowOf(parts: AsyncIterable<Uint8Array>, offset: number, limit: number): Promise<Window> {
  const first = Number.isFinite(offset) ? Math.max(0, Math.floor(offset)) : 0;
  const count = Number.isFinite(limit) ? Math.max(0, Math.floor(limit)) : 0;
  if (count === 0) return { content: "" };
  const lines = new Lines(first, first + count);
  for await (const part of parts) {
    lines.add(part);
    if (lines.read > countLimit && lines.beyond) return lines.window(false);
  }
  lines.end();
  return lines.window(true);
}

/** Takes the lines of a window out of a text. */
class Lines {
  /** How many bytes have been read. */
  read = 0;
  readonly #first: number;
  readonly #last: number; // the line after the window
  readonly #decoder = new TextDecoder();
  readonly #lines: string[] = [];
  #begun: string[] = []; // the parts of a line of the window that has no end yet
  #size = 0; // of the window
  #line = 0; // the line that is being read
  #open = false; // it has begun

  constructor(first: number, last: number) {
    this.#first = first;
    this.#last = last;
  }

  /** Reports whether there is something after the window. */
  get beyond(): boolean {
    return this.#line > this.#last || (this.#line === this.#last && this.#open);
  }

  add(part: Uint8Array): void {
    this.read += part.length;
    if (part.includes(0)) throw new FileError("The file is binary: a command can say more about it");
    this.#text(this.#decoder.decode(part, { stream: true }));
  }

  end(): void {
    this.#text(this.#decoder.decode());
    if (this.#open) this.#endLine();
  }

  window(whole: boolean): Window {
    const content = this.#lines.join("\n");
    if (this.#lines.length === 0) return { content };
    const endLine = this.#first + this.#lines.length;
    return {
      content,
      startLine: this.#first + 1,
      endLine,
      ...(whole && { totalLines: this.#line }),
      ...((!whole || endLine < this.#line) && { nextOffset: endLine }),
    };
  }

  #text(text: string): void {
    for (let at = 0; at < text.length; ) {
      const newline = text.indexOf("\n", at);
      const end = newline < 0 ? text.length : newline;
      this.#open = true;
      if (this.#inside()) this.#take(text.slice(at, end));
      if (newline >= 0) this.#endLine();
      at = end + 1;
    }
  }

  #inside(): boolean {
    return this.#line >= this.#first && this.#line < this.#last;
  }

  #take(text: string): void {
    this.#size += text.length;
    if (this.#size > windowLimit) throw new FileError(`These lines are too long to read: they have more than ${windowLimit} bytes`);
    this.#begun.push(text);
  }

  #endLine(): void {
    if (this.#inside()) this.#lines.push(this.#begun.join(""));
    this.#begun = [];
    this.#open = false;
    this.#line++;
  }
}
