// The files of a sandbox: browse, read, download, upload by drop.
import { get, of, send, url, type File as Entry } from "./api.js";
import { button, fail, fill, h, say } from "./dom.js";
import { above, encode, join, last, shown } from "./path.js";
import { content, size } from "./text.js";
import { address, type View } from "./view.js";

// readLimit is how much of a file is shown, in bytes.
const readLimit = 256 << 10;

export function showFiles(root: HTMLElement, v: View) {
  const path = v.at.slice(1).join("/"); // the first part is d for a directory, f for a file
  const show = v.at[0] === "f" ? showFile : showDirectory;
  void show(root, v, path).catch((e) => {
    fail(e, v.signal);
    if (!v.signal.aborted) fill(root, crumbs(v, ""), h("p", { class: "wrong" }, e.message));
  });
}

const at = (v: View, kind: "d" | "f", path: string) => address(v.id, "files", kind, path);

const query = (v: View, what: string, path: string) => of(v.id, what) + "?path=" + path;

function crumbs(v: View, path: string): HTMLElement {
  const parts = path.split("/").filter((p) => p);
  const links = parts.map((name, i) => h("li", {}, h("a", { href: at(v, "d", (path.startsWith("/") ? "/" : "") + parts.slice(0, i + 1).join("/")) }, shown(name))));
  return h(
    "nav",
    { class: "crumbs", "aria-label": "Directories" },
    h("ol", {}, h("li", {}, h("a", { href: at(v, "d", "") }, "workdir")), path.startsWith("/") && h("li", {}, h("a", { href: at(v, "d", "/") }, "/")), ...links),
  );
}

async function showDirectory(root: HTMLElement, v: View, path: string) {
  const dir = path || ".";
  const rows = h("tbody");
  const note = h("p", { class: "quiet" });
  const input = h("input", { type: "file", multiple: true, id: "upload", hidden: true });
  const load = async () => {
    const list = await get<{ entries: Entry[]; truncated: boolean }>(query(v, "/files/list", dir), v.signal);
    list.entries.sort((a, b) => Number(b.type === "directory") - Number(a.type === "directory"));
    note.textContent = list.truncated ? "There are more files than are listed." : list.entries.length ? "" : "There are no files here. Drop some to upload them.";
    fill(rows, ...list.entries.map((e) => rowOf(v, path, e)));
  };
  const upload = async (files: Iterable<File>) => {
    for (const f of files) {
      say(`Uploading ${f.name} …`);
      await send("PUT", query(v, "/files", join(path, encodeURIComponent(f.name))), { body: f, headers: { "Content-Type": "application/octet-stream" }, signal: v.signal });
      say(`${f.name} was uploaded.`);
    }
    await load();
  };
  input.addEventListener("change", () => void upload(input.files!).catch((e) => fail(e, v.signal)));
  dropped(root, v.signal, (files) => void upload(files).catch((e) => fail(e, v.signal)));
  fill(
    root,
    h("div", { class: "row" }, crumbs(v, path), h("div", { class: "row end" }, h("a", { href: url(query(v, "/tree", dir)), download: "files.tar" }, "Download all"), input, button("Upload", () => input.click()))),
    note,
    h("table", { "aria-label": "Files" }, h("thead", {}, h("tr", {}, ...["Name", "Size", "Changed", "Mode"].map((t) => h("th", { scope: "col", class: t === "Name" || t === "Size" ? undefined : "wide" }, t)), h("th", { scope: "col" }, h("span", { class: "hidden" }, "Actions")))), rows),
  );
  await load();
}

/** dropped takes files that are dropped onto a view. */
function dropped(root: HTMLElement, signal: AbortSignal, take: (files: File[]) => void) {
  root.classList.add("drop");
  const over = (e: DragEvent) => {
    e.preventDefault();
    root.classList.toggle("over", e.type === "dragover");
  };
  root.addEventListener("dragover", over, { signal });
  root.addEventListener("dragleave", over, { signal });
  root.addEventListener("drop", (e) => {
    over(e);
    take([...(e.dataTransfer?.files ?? [])]);
  }, { signal });
}

function rowOf(v: View, dir: string, e: Entry): HTMLTableRowElement {
  const path = join(dir, last(encode(e.path, e.path_base64)));
  const name = shown(last(path));
  const kind = e.type === "directory" ? "d" : "f";
  const open = e.type === "file" || e.type === "directory" || e.type === "symlink" ? h("a", { href: at(v, kind, path) }, name) : h("span", {}, name);
  return h(
    "tr",
    {},
    h("th", { scope: "row", class: e.type }, open, e.type === "directory" ? "/" : e.type === "symlink" ? " → " + shown(encodeURIComponent(e.target ?? "")) : ""),
    h("td", {}, e.type === "file" ? size(e.size) : ""),
    h("td", { class: "wide" }, new Date(e.mtime).toLocaleString()),
    h("td", { class: "wide" }, e.mode),
    h("td", {}, h("div", { class: "row end" }, e.type === "file" && save(v, path, name))),
  );
}

const save = (v: View, path: string, name: string) => h("a", { href: url(query(v, "/files", path)), download: name.replace(/[\\/]/g, "_"), "aria-label": `Download ${name}` }, "Download");

async function showFile(root: HTMLElement, v: View, path: string) {
  const file = await get<Entry>(query(v, "/files/stat", path) + "&follow=true", v.signal);
  if (file.type === "directory") {
    location.replace(at(v, "d", path));
    return;
  }
  const text = h("pre", { tabindex: "0", "aria-label": "Content" });
  const note = h("p", { class: "quiet" });
  fill(root, h("div", { class: "row" }, crumbs(v, above(path)), h("strong", {}, shown(last(path))), h("div", { class: "row end" }, save(v, path, shown(last(path))))), note, text);
  if (file.type !== "file") {
    note.textContent = `It is a ${file.type}, which is not read.`;
    return;
  }
  const range = file.size > readLimit ? { Range: `bytes=0-${readLimit - 1}` } : undefined;
  const answer = await send("GET", query(v, "/files", path), { headers: range, signal: v.signal });
  const bytes = new Uint8Array(await answer.arrayBuffer());
  note.textContent = size(file.size) + (file.size > readLimit ? `, of which the first ${size(readLimit)} are shown` : "");
  if (bytes.includes(0)) note.textContent += ". It is no text.";
  text.textContent = content(new TextDecoder().decode(bytes));
}
