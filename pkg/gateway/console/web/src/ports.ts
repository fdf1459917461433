// Servers in the sandbox, each at an origin of its own.
import { of, post } from "./api.js";
import { fail, fill, h } from "./dom.js";
import { until } from "./text.js";
import type { View } from "./view.js";

export function showPorts(root: HTMLElement, v: View) {
  const port = h("input", { id: "port", type: "number", min: 1, max: 65535, required: true, inputmode: "numeric" });
  const links = h("ul");
  const form = h("form", { class: "row" }, h("label", { for: "port" }, "Port"), port, h("button", {}, "Make a link"));
  const open = async (number: number) => {
    const link = await post<{ url: string; expires_at: string }>(of(v.id, `/ports/${number}/link`), {}, v.signal, { repeats: true });
    const to = new URL(link.url);
    if (to.protocol !== "https:" && to.protocol !== "http:") throw new Error("the gateway's link is of no server");
    links.prepend(h("li", {}, h("a", { href: to.href, target: "_blank", rel: "noopener noreferrer" }, `Port ${number}`), ` for ${until(link.expires_at)}: whoever has the link reaches the server.`));
  };
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    open(Number(port.value)).catch((error) => fail(error, v.signal));
  });
  const s = v.sandbox();
  const openPorts = s.all_public ? "All ports are public." : s.public_ports?.length ? `Public: ${s.public_ports.join(", ")}.` : "No port is public.";
  fill(root, h("p", { class: "quiet" }, openPorts), form, links);
}
