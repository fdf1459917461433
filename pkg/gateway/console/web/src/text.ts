// Bytes, names and processes of sandboxes as people may see them.
import type { Exit, Process } from "./api.js";

// What a name could play tricks with: control characters, marks of direction, what has no width.
const tricks = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** visible shows in a name what would otherwise hide, reorder or break it. */
export const visible = (name: string) => name.replace(tricks, (c) => `\\u{${c.charCodeAt(0).toString(16)}}`);

// Escapes of terminals: of two bytes, of sequences that end with a letter, and of texts up to their end.
const escapes = /\u001b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[ -/]*[0-~])/g;

/** plain is what a program has written, without what would control a terminal. */
export const plain = (text: string) =>
  text
    .replace(escapes, "")
    .replace(/\r\n/g, "\n")
    .replace(tricks, (c) => (c === "\n" || c === "\t" ? c : c === "\r" ? "\n" : "\ufffd"));

/** size of a file in a unit that is easy to read. */
export function size(bytes: number | undefined): string {
  if (bytes === undefined) return "";
  let unit = 0;
  while (bytes >= 1024 && unit < 5) [bytes, unit] = [bytes / 1024, unit + 1];
  return `${unit && bytes < 10 ? bytes.toFixed(1) : Math.round(bytes)} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB"][unit]}`;
}

/** span is a time in its largest unit. */
export function span(seconds: number): string {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

/** since is how long ago a time was; until, how long it takes to come. */
export const since = (time: string | undefined) => (time ? span((Date.now() - Date.parse(time)) / 1000) : "");
export const until = (time: string | undefined) => (time ? span((Date.parse(time) - Date.now()) / 1000) : "");

/** ownerOf says who made a sandbox: by which key, if the tenant has several. */
export const ownerOf = (s: { owner?: { tenant: string; key?: string } }) => visible(s.owner?.key ?? s.owner?.tenant ?? "");

/** bytesOf decodes base64. */
export const bytesOf = (base64: string) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));

/** commandOf is a command in one line. */
export function commandOf(p: Process): string {
  const text = p.script ?? (p.args ?? []).join(" ");
  return visible(plain(text).replace(/\s+/g, " ").slice(0, 200)) || "(no name)";
}

/** endOf says how a process ended. */
export const endOf = (exit: Exit | undefined) => (!exit ? "running" : exit.reason === "exited" ? `exit ${exit.code}` : exit.signal ? `signal ${exit.signal}` : exit.reason);
