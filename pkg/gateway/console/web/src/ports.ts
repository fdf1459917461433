// Servers in the sandbox, each at an origin of its own.
import { Problem, get, of, post, type ListeningPort } from "./api.js";
import { button, fail, fill, h, poll } from "./dom.js";
import { until, visible } from "./text.js";
import { address, type View } from "./view.js";

export function showPorts(root: HTMLElement, v: View) {
  const port = h("input", { id: "port", type: "number", min: 1, max: 65535, required: true, inputmode: "numeric" });
  const links = h("ul", { "aria-label": "Links" });
  const form = h("form", { class: "row" }, h("label", { for: "port" }, "Port"), port, h("button", {}, "Make a link"));
  const link = async (number: number) => {
    const link = await post<{ url: string; expires_at: string }>(of(v.id, `/ports/${number}/link`), {}, v.signal, { repeats: true });
    const to = new URL(link.url);
    if (to.protocol !== "https:" && to.protocol !== "http:") throw new Error("the gateway's link is of no server");
    links.prepend(h("li", {}, h("a", { href: to.href, target: "_blank", rel: "noopener noreferrer" }, `Port ${number}`), ` for ${until(link.expires_at)}: whoever has the link reaches the server.`));
    return to.href;
  };
  const wrong = (error: unknown) => fail(error, v.signal);
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    link(Number(port.value)).catch(wrong);
  });
  // A browser that opens no window so late leaves the link in the list.
  const open = (number: number) => void link(number).then((href) => window.open(href, "_blank", "noopener,noreferrer"), wrong);
  const s = v.sandbox();
  const openPorts = s.all_public ? "All ports are public." : s.public_ports?.length ? `Public: ${s.public_ports.join(", ")}.` : "No port is public.";
  fill(root, h("p", { class: "quiet" }, openPorts), listed(v, open), form, links);
}

/** listed shows the ports at which programs of the sandbox listen. */
function listed(v: View, open: (port: number) => void): HTMLElement {
  const note = h("p", { class: "quiet", role: "status" });
  const rows = h("tbody");
  const titles = ["Port", "Program", "Address", "Link"].map((t) => h("th", { scope: "col" }, t));
  const table = h("table", { "aria-label": "Ports that programs listen on" }, h("thead", {}, h("tr", {}, ...titles)), rows);
  let drawn = "";
  const draw = (ports: ListeningPort[], text: string) => {
    note.textContent = text;
    table.hidden = !ports.length;
    const now = JSON.stringify(ports);
    if (now !== drawn) fill(rows, ...ports.map((p) => rowOf(v.id, p, open))); // the keyboard stays where it is
    drawn = now;
  };
  draw([], "");
  poll(v.signal, 5000, async () => {
    try {
      const { ports, truncated } = await get<{ ports: ListeningPort[]; truncated?: boolean }>(of(v.id, "/ports"), v.signal);
      draw(ports, truncated ? "There may be more." : ports.length ? "" : "No program listens at a port.");
    } catch (e) {
      if (!(e instanceof Problem)) throw e;
      draw([], e.message); // it is paused, say, or its agent is too old
    }
  });
  return h("div", {}, note, table);
}

function rowOf(id: string, p: ListeningPort, open: (port: number) => void) {
  const program = `${visible(p.name ?? "") || "(no name)"} (process ${p.pid})`;
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, String(p.port)),
    h("td", { class: "name" }, p.exec_id ? h("a", { href: address(id, "processes", p.exec_id) }, program) : program),
    h("td", { class: "quiet" }, p.addresses.map(visible).join(", ")),
    h("td", {}, button("Open", () => open(p.port), { "aria-label": `Open port ${p.port}` })),
  );
}
