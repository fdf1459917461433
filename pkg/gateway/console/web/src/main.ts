// The page: who is logged in, and the view that the address names. Addresses are #/ for the list, and
// #/s/ID/VIEW/… for a sandbox.
import { Problem, get, send, session, type SSH } from "./api.js";
import { fail, fill, h } from "./dom.js";
import { showList } from "./list.js";
import { showLogin } from "./login.js";
import { showSandbox } from "./sandbox.js";

const main = document.getElementById("main")!;
const who = document.getElementById("who")!;
const leave = document.getElementById("leave") as HTMLButtonElement;

let view = new AbortController();

function next(): AbortSignal {
  view.abort();
  view = new AbortController();
  return view.signal;
}

function logIn(code?: string) {
  leave.hidden = true;
  who.textContent = "";
  document.title = "Log in · podagent";
  showLogin(main, start, code);
}

function route() {
  if (leave.hidden) return; // nobody is logged in
  const parts = location.hash.slice(1).split("/");
  if (parts[0] !== "") return; // a place in the page
  const signal = next();
  fill(main);
  if (parts[1] !== "s" || !parts[2]) return showList(main, signal);
  try {
    showSandbox(main, signal, decodeURIComponent(parts[2]), parts.slice(3));
  } catch (e) {
    if (!(e instanceof URIError)) throw e;
    fill(main, h("p", { class: "wrong" }, "This address leads nowhere."));
  }
}

async function start() {
  try {
    const me = await get<{ tenant: string; key?: string; can_pause?: boolean; ssh?: SSH }>("/whoami");
    who.textContent = me.key ? `${me.tenant} · ${me.key}` : me.tenant;
    session.canPause = me.can_pause ?? false;
    session.ssh = me.ssh;
  } catch (e) {
    if (!(e instanceof Problem && e.status === 401)) fail(e);
    logIn();
    return;
  }
  leave.hidden = false;
  route();
}

session.signedOut = () => {
  if (leave.hidden) return;
  next();
  logIn();
};

leave.addEventListener("click", async () => {
  next();
  await send("POST", "/console/logout").catch(fail);
  logIn();
});

window.addEventListener("hashchange", route);

const code = /^#login=([A-Z0-9]+)$/.exec(location.hash)?.[1];
if (code) {
  history.replaceState(null, "", location.pathname + "#/"); // it counts once, and is in no history
  logIn(code);
} else {
  void start();
}
