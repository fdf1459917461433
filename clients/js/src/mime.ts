/** The types of the files that models take as they are, by the ends of their names. All others are text. */
const binary: { [end: string]: string } = {
  png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp", heic: "image/heic", heif: "image/heif",
  mp3: "audio/mpeg", wav: "audio/wav", aiff: "audio/aiff", aac: "audio/aac", ogg: "audio/ogg", flac: "audio/flac",
  mp4: "video/mp4", webm: "video/webm", mpeg: "video/mpeg", mpg: "video/mpeg", mov: "video/quicktime", avi: "video/x-msvideo",
  pdf: "application/pdf", ppt: "application/vnd.ms-powerpoint",
  pptx: "application/vnd.openxmlformats-officedocument.presentationml.presentation",
};

/** Returns the type that deepagents gives to a file, as far as it is not that of text. */
export function mimeTypeOf(path: string): string {
  return binary[/\.([^./]+)$/.exec(path)?.[1]?.toLowerCase() ?? ""] ?? "text/plain";
}

export function isTextType(type: string): boolean {
  return type.startsWith("text/");
}
