// What gateways say that they have done. Each knows what it did itself, and calls reach one or another.
import { h } from "./dom.js";

/** timeOf shows a time, with its date as a title. */
export const timeOf = (time: string) => h("time", { datetime: time, title: new Date(time).toLocaleString() }, new Date(time).toLocaleTimeString());

export interface Recent {
  gateway: string;
  since: string;
  omitted?: number;
}

/** Gateways have what each of them said last. */
export class Gateways<T extends Recent> {
  private readonly byName = new Map<string, T>();

  add(got: T) {
    this.byName.set(got.gateway, got);
  }

  get all(): T[] {
    return [...this.byName.values()];
  }

  /** omitted says what is not shown. */
  omitted(): string {
    const lost = this.all.reduce((sum, g) => sum + (g.omitted ?? 0), 0);
    const since = this.all.map((g) => Date.parse(g.since)).reduce((a, b) => Math.max(a, b), 0);
    const of = this.all.length > 1 ? ` of ${this.all.length} gateways` : "";
    return `The newest since ${new Date(since).toLocaleString()}${of}.` + (lost ? ` ${lost} older ones are gone.` : "");
  }
}
