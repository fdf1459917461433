// Pictures for the documentation.
export async function pictures({ page, plan }) {
  const take = async (name) => page.screenshot({ path: `${plan.screenshots}/${name}.png`, animations: "disabled", caret: "hide" });
  const at = (rest) => page.goto(`${plan.origin}/console#/${rest}`);
  await page.setViewportSize({ width: 1000, height: 600 });
  await at("");
  await page.getByLabel("Key").fill(plan.token);
  await page.keyboard.press("Enter");
  const call = (path, body) => page.evaluate(([path, body]) => fetch("/console/api/v1/sandboxes" + path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }).then((r) => r.text()), [path, body]);
  await page.getByRole("link", { name: plan.sandbox }).waitFor();
  for (const [id, team] of [["review-4", "blue"], ["build-9", "red"]]) await call("", { id, labels: { team } });
  await page.getByRole("link", { name: "build-9" }).waitFor();
  await take("sandboxes");
  await at(`s/${plan.sandbox}/processes`);
  await page.getByLabel("Command", { exact: true }).fill("for i in 1 2 3; do echo \"test $i: ok\"; done; echo 'one warning' >&2; exec sleep 1000");
  await page.keyboard.press("Enter");
  await page.getByText("one warning", { exact: true }).waitFor();
  await page.getByRole("row", { name: /for i in/ }).getByText("running").waitFor();
  await take("processes");
  await at(`s/${plan.sandbox}/files`);
  await page.getByRole("link", { name: "hostile.html", exact: true }).waitFor();
  await take("files");
  await at(`s/${plan.sandbox}/terminal`);
  await page.getByRole("button", { name: "New terminal" }).click();
  await page.waitForURL(/terminal\/[0-9a-f-]{36}$/);
  await page.keyboard.type("PS1='$ '; clear\n");
  await page.keyboard.type("ls -1\n");
  await page.waitForFunction(() => document.querySelector(".xterm-rows")?.textContent.includes("hostile.html"));
  await take("terminal");
  await page.emulateMedia({ colorScheme: "dark" });
  await at(`s/${plan.sandbox}/processes`);
  await page.getByRole("row", { name: /for i in/ }).waitFor();
  await take("dark");
}
