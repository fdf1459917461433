import { linesOf } from "./connection.js";
import { CutError } from "./errors.js";
import { textOf } from "./text.js";
import type { Difference, FileType, SearchEnd } from "./types.js";

/** A line of an answer to a search or a comparison. */
export interface SearchLine {
  type: FileType | "match" | "context" | "difference" | "end";
  path?: string;
  path_base64?: string;
  line?: number;
  text?: string;
  text_base64?: string;
  how?: Difference["how"];
  directory?: boolean;
  diff?: string;
  diff_base64?: string;
  no_diff?: string;
  truncated?: boolean;
  skipped?: string[];
}

/**
 * The results of a search or a comparison, as they are found. It can be read once. One that was cut off is
 * an error, so that nobody takes its results for all.
 */
export class Search<T> implements AsyncIterable<T> {
  readonly #answer: () => Promise<Response>;
  readonly #result: (line: SearchLine, path: string) => T;
  /** What there is to know about the results, once they have all been read. */
  end: SearchEnd = { truncated: false, skipped: [] };

  constructor(answer: () => Promise<Response>, result: (line: SearchLine, path: string) => T) {
    this.#answer = answer;
    this.#result = result;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    let ended = false;
    for await (const line of linesOf<SearchLine>(await this.#answer())) {
      ended = line.type === "end";
      if (ended) this.end = { truncated: line.truncated ?? false, skipped: line.skipped ?? [] };
      else yield this.#result(line, textOf(line.path, line.path_base64));
    }
    if (!ended) throw new CutError("the answer was cut off");
  }

  /** Reads all results. */
  async all(): Promise<T[]> {
    const results: T[] = [];
    for await (const result of this) results.push(result);
    return results;
  }
}
