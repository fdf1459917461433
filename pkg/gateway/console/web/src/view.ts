// The views of a sandbox, and where they are.
import type { Sandbox } from "./api.js";

/** View is one of a sandbox, until it is left. */
export interface View {
  id: string;
  at: string[]; // what follows the view's name in the address
  signal: AbortSignal; // of its end
  woken?: boolean; // a person wants the sandbox to wake for it
  sandbox: () => Sandbox;
}

/**
 * wakes is the part of a query that lets a connection wake the sandbox, or not. Only the first one of a view may that a
 * person wants: one that takes over from another that broke must leave the sandbox asleep.
 */
export const wakes = (v: View, first: boolean) => `wake=${first && !!v.woken}`;

/** address is where a view is. */
export const address = (id: string, view: string, ...at: string[]) => ["#/s", encodeURIComponent(id), view, ...at].join("/");
