// Drives the console in Chromium, as people do. The plan comes as JSON on standard input, and what came of each
// step goes to standard output, a line of JSON each: its name, what was wrong, and what it measured.
import { readFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { chromium } from "playwright-core";
import { pictures } from "./pictures.mjs";
import { views } from "./views.mjs";
import * as all from "./steps.mjs";

const plan = JSON.parse(readFileSync(0, "utf8"));
const connections = new Set();
const relay = createServer((from) => {
  connections.add(from);
  from.on("close", () => connections.delete(from));
  const to = connect(plan.relay.path);
  from.pipe(to).pipe(from);
  for (const [one, other] of [[from, to], [to, from]]) one.on("error", () => other.destroy()).on("close", () => other.destroy());
});
await new Promise((done) => relay.listen(Number(plan.relay.port), "127.0.0.1", done));
relay.unref();
// cut resets all connections of the browser, those of WebSockets, too.
const cut = () => connections.forEach((c) => c.resetAndDestroy());
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--no-proxy-server", "--host-resolver-rules=MAP gateway.test 127.0.0.1, MAP *.sandboxes.test 127.0.0.1"],
});
const context = await browser.newContext({ acceptDownloads: true, viewport: { width: 1200, height: 800 }, ignoreHTTPSErrors: true });
context.setDefaultTimeout(20_000);
const page = await context.newPage();
const faults = []; // what the page must never do

// A violation of the policy, an error of a script, a request to another host: each is a fault.
await context.addInitScript(() => {
  document.addEventListener("securitypolicyviolation", (e) => console.error(`policy: ${e.violatedDirective} ${e.blockedURI} ${e.sourceFile}:${e.lineNumber}`));
});
page.on("console", (m) => {
  if (m.type() === "error" && !/Failed to load resource/.test(m.text())) faults.push(m.text());
});
page.on("requestfailed", (r) => {
  if (r.failure()?.errorText !== "net::ERR_ABORTED") console.error(`${r.method()} ${r.url()} failed: ${r.failure()?.errorText}`);
});
page.on("pageerror", (e) => faults.push("error: " + e.message));
page.on("dialog", (d) => {
  faults.push("dialog: " + d.message());
  void d.dismiss();
});
page.on("request", (r) => {
  if (!r.url().startsWith(plan.origin) && !r.url().startsWith("blob:" + plan.origin)) faults.push("request: " + r.url());
});

const steps = plan.screenshots ? { pictures } : plan.views ? { views } : all.steps;
for (const [name, step] of Object.entries(steps)) {
  let wrong = "", times;
  try {
    times = await step({ page, context, browser, plan, faults, cut });
  } catch (e) {
    wrong = String(e.stack ?? e) + "\n" + (await page.locator("body").innerText().catch(() => "")).slice(0, 2000);
  }
  if (await page.evaluate(() => "ran" in window).catch(() => false)) faults.push("a script of the sandbox ran");
  wrong += faults.splice(0).map((f) => "\n" + f).join("");
  console.log(JSON.stringify({ name, wrong, times }));
}
await browser.close();
