// Drives the console in Chromium, as people do. The plan comes as JSON on standard input, and what came of each
// step goes to standard output, a line of JSON each: its name, and what was wrong.
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";
import { pictures } from "./pictures.mjs";
import * as all from "./steps.mjs";

const plan = JSON.parse(readFileSync(0, "utf8"));
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--no-proxy-server", "--host-resolver-rules=MAP gateway.test 127.0.0.1"],
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

const steps = plan.screenshots ? { pictures } : all.steps;
for (const [name, step] of Object.entries(steps)) {
  if (plan.only?.length && !plan.only.includes(name)) continue;
  let wrong = "";
  try {
    await step({ page, context, browser, plan, faults });
  } catch (e) {
    wrong = String(e.stack ?? e) + "\n" + (await page.locator("body").innerText().catch(() => "")).slice(0, 2000);
  }
  if (await page.evaluate(() => "ran" in window).catch(() => false)) faults.push("a script of the sandbox ran");
  wrong += faults.splice(0).map((f) => "\n" + f).join("");
  console.log(JSON.stringify({ name, wrong }));
}
await browser.close();
