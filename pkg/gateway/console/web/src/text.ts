// Bytes, names and processes of sandboxes as people may see them.
import type { Exit, Process } from "./api.js";

// What a name could play tricks with: control characters, marks of direction, what has no width.
const tricks = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

const code = (c: string) => `\\u{${c.charCodeAt(0).toString(16)}}`;

/** visible shows in a name what would otherwise hide, reorder or break it. */
export const visible = (name: string) => name.replace(tricks, code);

/** content shows a text of several lines, and all that is in it. */
export const content = (text: string) => text.replace(/\r\n/g, "\n").replace(tricks, (c) => (c === "\n" || c === "\t" ? c : code(c)));

/** line shows a text in one line, up to a length. */
export function line(text: string, limit: number): string {
  const all = text.replace(/[ \t\r\n]+/g, " ");
  return visible(all.slice(0, limit)) + (all.length > limit ? "…" : "");
}

// Escapes of terminals that are whole: sequences that end with a letter, texts of one line up to their end, and others.
const escapes = /\u001b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\u0000-\u001f]*(?:\u0007|\u001b\\)|[ -/]+[0-~]|[0-OQ-WYZ\\`-~])/g;

// The beginning of an escape at the end of a text. One that has text of its own is none: what never ends may not hide.
const begun = /\u001b(?:\[[0-?]*[ -/]*|[ -/]*)$/;

/** parted returns a text without the beginning of an escape at its end, and this, whose rest may come. */
export function parted(text: string): [string, string] {
  const at = text.search(begun);
  return at < 0 || text.length - at > begunLimit ? [text, ""] : [text.slice(0, at), text.slice(at)];
}

// begunLimit is how long the beginning of an escape may be, in characters.
const begunLimit = 64;

/** plain is what a program has written, without the escapes that a terminal would not show. */
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
  return line(text, 200).trim() || "(no name)";
}

/** endOf says how a process ended. */
export const endOf = (exit: Exit | undefined) => (!exit ? "running" : exit.reason === "exited" ? `exit ${exit.code}` : exit.signal ? `signal ${exit.signal}` : exit.reason);
