// The views of a sandbox, and where they are.
import type { Sandbox } from "./api.js";

/** View is one of a sandbox, until it is left. */
export interface View {
  id: string;
  at: string[]; // what follows the view's name in the address
  signal: AbortSignal; // of its end
  sandbox: () => Sandbox;
}

/** address is where a view is. */
export const address = (id: string, view: string, ...at: string[]) => ["#/s", encodeURIComponent(id), view, ...at].join("/");
