/** Text that may not be UTF-8 comes in a field of its own, in base64. */

export function bytesOfBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

export function toBase64(bytes: Uint8Array): string {
  const parts: string[] = [];
  for (let at = 0; at < bytes.length; at += 8192) parts.push(String.fromCharCode(...bytes.subarray(at, at + 8192)));
  return btoa(parts.join(""));
}

/** Returns a text of an answer. What is not UTF-8 has replacement characters. */
export function textOf(text: string | undefined, other: string | undefined): string {
  return other === undefined ? (text ?? "") : new TextDecoder().decode(bytesOfBase64(other));
}
