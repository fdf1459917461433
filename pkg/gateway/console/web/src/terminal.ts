// A terminal of the sandbox.
import { FitAddon } from "@xterm/addon-fit";
import { Terminal, type ITheme } from "@xterm/xterm";
import { Connection } from "./connection.js";
import { button, fill, h } from "./dom.js";
import { shield } from "./shield.js";
import { address, type View } from "./view.js";

const light: ITheme = { background: "#ffffff", foreground: "#1c2024", cursor: "#1c2024", cursorAccent: "#ffffff", selectionBackground: "#b3d4ff", yellow: "#7a5b00", brightYellow: "#7a5b00", green: "#0b6b34", brightGreen: "#0b6b34", white: "#5c636b", brightWhite: "#3c4248", cyan: "#05606b", brightCyan: "#05606b" };
const dark: ITheme = { background: "#111418", foreground: "#e6e9ec", cursor: "#e6e9ec", cursorAccent: "#111418", selectionBackground: "#264f78" };

/** show attaches to a terminal, or makes a new one. If the sandbox pauses, a button calls wake. */
export function show(root: HTMLElement, v: View, wake: () => void, exec?: string) {
  const state = h("p", { class: "quiet", role: "status" });
  const box = h("div", { class: "terminal-box" });
  fill(root, box, state, h("p", { class: "quiet" }, "Ctrl+F6 leaves the terminal. It runs on when you leave the page."));
  const term = terminalIn(box, v.signal);
  const connection = new Connection(v.id, exec, {
    output: (bytes, done) => term.write(bytes, done),
    size: () => ({ cols: term.cols, rows: term.rows }),
    started: (id) => history.replaceState(null, "", address(v.id, "terminal", id)), // a reload attaches to it again
    say: (text) => (state.textContent = text),
    paused: () => fill(state, "It is paused. ", button("Wake it", wake)),
  }, v.signal);
  const encoder = new TextEncoder();
  term.onData((text) => connection.input(encoder.encode(text)));
  term.onBinary((text) => connection.input(Uint8Array.from(text, (c) => c.charCodeAt(0))));
  term.onResize(() => connection.resize());
  connection.open();
}

/** terminalIn makes a terminal that fills its box. */
function terminalIn(box: HTMLElement, signal: AbortSignal): Terminal {
  const darkness = matchMedia("(prefers-color-scheme: dark)");
  shield();
  const term = new Terminal({
    theme: darkness.matches ? dark : light, fontFamily: "ui-monospace, monospace", fontSize: 14, scrollback: 5000, screenReaderMode: true, minimumContrastRatio: 4.5,
    linkHandler: { activate: () => {} }, // programs name links, which lead anywhere
  });
  const fit = new FitAddon();
  term.loadAddon(fit);
  term.attachCustomKeyEventHandler((e) => {
    if (e.key !== "F6" || !e.ctrlKey) return true;
    if (e.type === "keydown") document.querySelector<HTMLElement>("nav.tabs [aria-current]")?.focus();
    return false;
  });
  term.open(box);
  term.textarea?.setAttribute("aria-label", "Terminal. Control F6 leaves it.");
  const resized = new ResizeObserver(() => fit.fit());
  resized.observe(box);
  fit.fit();
  term.focus();
  darkness.addEventListener("change", () => (term.options.theme = darkness.matches ? dark : light), { signal });
  signal.addEventListener("abort", () => {
    resized.disconnect();
    term.dispose();
  });
  return term;
}
