import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectAccessible, Lab, launchBrowser, noBrowser, openWindow } from "./support.ts";

describe.skipIf(noBrowser !== null)("limits", () => {
  let lab: Lab;
  let browser: Browser;

  beforeAll(async () => {
    lab = await Lab.start();
    browser = await launchBrowser();
    await lab.harness();
    await lab.dataset("pair", { a: "true", b: "true" });
    await lab.runner();
  });
  afterAll(async () => {
    await browser?.close();
    await lab?.stop();
  });

  const limits = () => lab.client.call("get_workspace_limits", { params: { id: "default" } });

  test("the runs of a month are budgeted, what is used is shown, and a submit that goes over is told so", async () => {
    await lab.client.call("run_scorecard", {
      body: { dataset: { id: "pair" }, harness: { id: "shell" }, runtime: "self" },
    });
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    await page.goto("/dashboard/limits");
    await page.getByText("2 runs submitted this month", { exact: true }).waitFor();
    const field = page.getByLabel("Runs a month");
    const save = page.getByRole("button", { name: "Set the limits" });
    await field.fill("three");
    await save.click();
    await page.getByText("must be a number, or empty for no limit").waitFor();
    await field.fill("10000001");
    await save.click();
    await page.getByText("must be a whole number from 0 to 10000000", { exact: true }).waitFor();
    expect(await limits()).toMatchObject({ runsBudget: null });
    await field.fill("3");
    await save.click();
    const meter = page.getByRole("meter", { name: "Runs of this month" });
    await expect.poll(() => meter.getAttribute("aria-valuenow")).toBe("2");
    expect(await meter.getAttribute("aria-valuemax")).toBe("3");
    await page.getByText("2 of 3 runs of this month used", { exact: true }).waitFor();
    expect(await limits()).toMatchObject({ weight: 1, maxInFlight: null, queueDepth: 50_000, runsBudget: 3 });
    await expectAccessible(page, "limits with a budget");

    await page.goto("/dashboard/scorecards/new");
    await page.getByLabel("Dataset").selectOption("pair");
    await page.getByRole("region", { name: "My machines" }).getByLabel("Any of my machines").check();
    await page.getByRole("button", { name: "Start the scorecard" }).click();
    const alert = page.getByRole("alert").filter({ hasText: "More runs than the budget holds" });
    await alert
      .getByText(/'default' has used 2 of its 3 runs of \d{4}-\d\d; 2 more would go over\. An operator/)
      .waitFor();
    await expectAccessible(page, "a scorecard over the budget");

    await page.goto("/dashboard/limits");
    await page.getByLabel("Runs a month").fill("");
    await page.getByRole("button", { name: "Set the limits" }).click();
    await page.getByText("2 runs submitted this month", { exact: true }).waitFor();
    expect(await limits()).toMatchObject({ runsBudget: null, runsUsed: 2 });
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await context.close();
  });
});
