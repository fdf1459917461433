// What can be done to a sandbox as a whole.
import { of, post, send, session, type Sandbox } from "./api.js";
import { ask, button, fail, h, say } from "./dom.js";
import { visible } from "./text.js";

/** badge shows a state. */
export const badge = (state: string) => h("span", { class: "state " + state }, state);

/** actions are the buttons for what a sandbox's state allows. */
export function actions(s: Sandbox, changed: () => Promise<void>): HTMLButtonElement[] {
  const name = visible(s.id);
  const act = (text: string, done: string, what: () => Promise<unknown>) =>
    button(text, () => void attempt(text, name, done, what).then(changed).catch(fail), { "aria-label": `${text} ${name}` });
  const all: HTMLButtonElement[] = [];
  if (s.state === "running" && session.canPause) all.push(act("Pause", "paused", () => post(of(s.id, "/pause"), undefined, undefined, again)));
  if (s.state === "paused") all.push(act("Resume", "resumed", () => post(of(s.id, "/resume"), undefined, undefined, again)));
  if (s.state === "running" && s.expires_at) all.push(act("Extend", "extended", () => extend(s)));
  if (s.state !== "terminating") all.push(act("End", "ended", () => end(s)));
  return all;
}

async function attempt(text: string, name: string, done: string, what: () => Promise<unknown>) {
  say(`${text} ${name} …`);
  if ((await what()) !== left) say(`${name} was ${done}.`);
  else say("");
}

// again is for what has the same effect twice.
const again = { repeats: true };

const left = Symbol("left");

async function extend(s: Sandbox): Promise<unknown> {
  const minutes = await ask(`Extend ${visible(s.id)}`, "It ends itself later by this time.", "Extend", { label: "Minutes", value: "60", type: "number" });
  if (minutes === undefined) return left;
  return post(of(s.id, "/extend"), { additional_seconds: Math.round(Number(minutes) * 60) }, undefined, again);
}

async function end(s: Sandbox): Promise<unknown> {
  if (!(await ask(`End ${visible(s.id)}?`, "Its processes end, and its files are removed.", "End"))) return left;
  return send("DELETE", of(s.id));
}
