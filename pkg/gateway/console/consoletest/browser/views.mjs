// How long it takes to show the list, in milliseconds.
export async function views({ context, page, plan }) {
  await page.goto(`${plan.origin}/console#/`);
  await page.getByLabel("Key").fill(plan.token);
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: plan.sandbox }).waitFor();
  const took = [];
  for (let i = 0; i < plan.views; i++) {
    const view = await context.newPage();
    await view.goto(`${plan.origin}/console#/`);
    await view.getByRole("link", { name: plan.sandbox }).waitFor();
    took.push(await view.evaluate(() => performance.now()));
    await view.close();
  }
  return took;
}
