// Paths are bytes. Here each is percent-encoded, as queries have them, with its slashes; people see it decoded.
import { bytesOf, visible } from "./text.js";

/** encode returns the path of a file, which comes as text, or in base64 if it is no text. */
export function encode(text: string | undefined, base64: string | undefined): string {
  if (text !== undefined) return text.split("/").map(encodeURIComponent).join("/");
  return Array.from(bytesOf(base64 ?? ""), (b) => (b === 47 ? "/" : "%" + b.toString(16).padStart(2, "0"))).join("");
}

/** shown is what people see of a path. */
export function shown(path: string): string {
  try {
    return visible(decodeURIComponent(path));
  } catch {
    return visible(path.replace(/%([0-9a-f]{2})/gi, (_, x) => String.fromCharCode(parseInt(x, 16))).replace(/[\u0080-\u00ff]/g, "\ufffd"));
  }
}

/** join adds a name to a directory. */
export const join = (dir: string, name: string) => (dir === "" || dir.endsWith("/") ? dir + name : dir + "/" + name);

/** last is the last part of a path. */
export const last = (path: string) => path.slice(path.lastIndexOf("/") + 1);

/** above is the directory that a path is in. */
export const above = (path: string) => path.slice(0, Math.max(path.lastIndexOf("/"), path.startsWith("/") ? 1 : 0));
