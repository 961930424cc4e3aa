import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { until } from "../../support/control-plane.ts";
import { expectAccessible, Lab, launchBrowser, noBrowser, openWindow } from "./support.ts";

describe.skipIf(noBrowser !== null)("runs", () => {
  let lab: Lab;
  let browser: Browser;

  beforeAll(async () => {
    lab = await Lab.start();
    browser = await launchBrowser();
    await lab.harness();
    await lab.runner({ maxConcurrent: 1 });
  });
  afterAll(async () => {
    await browser?.close();
    await lab?.stop();
  });

  const submit = async (id: string, task: string) =>
    (
      await lab.client.call("submit_run", {
        body: { harness: { id: "shell", version: "1.0.0" }, case: { id, task }, runtime: "self" },
      })
    ).id;

  test("a run is watched while it writes, and cancelled by its name", async () => {
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    const id = await submit("talker", 'i=0; while true; do i=$((i+1)); echo "line $i"; sleep 0.2; done');
    await page.goto("/dashboard/runs");
    await page.getByRole("link", { name: "talker" }).click();
    await expect.poll(() => page.getByRole("heading", { level: 1 }).textContent()).toBe("talker");
    await page.getByRole("tab", { name: "Log" }).click();
    await page.getByText("line 3", { exact: true }).waitFor({ timeout: 20_000 });
    expect(
      await page
        .getByRole("log")
        .evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight),
    ).toBeLessThan(40);
    await expectAccessible(page, "log of a run");

    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    const dialog = page.getByRole("alertdialog");
    await expect.poll(() => dialog.textContent()).toContain(id);
    await dialog.getByRole("button", { name: "Cancel the run" }).click();
    await page.getByRole("status").filter({ hasText: "Cancelled" }).waitFor({ timeout: 20_000 });
    expect((await lab.client.call("get_run", { params: { id } })).status).toBe("cancelled");
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await context.close();
  });

  test("a run that waits says why, where it stands and what would start it", async () => {
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    const first = await submit("long", "sleep 30");
    await until(
      "it runs",
      20_000,
      async () => (await lab.client.call("get_run", { params: { id: first } })).status === "running",
    );
    const second = await submit("patient", "true");
    await page.goto(`/dashboard/runs/${second}`);
    const why = page.getByRole("region", { name: "Why it waits" });
    await expect.poll(() => why.textContent()).toContain("Waiting for a free slot");
    expect(await why.textContent()).toContain("position 1");
    await expectAccessible(page, "a run that waits");
    await lab.client.call("cancel_run", { params: { id: first } });
    await page.getByRole("status").filter({ hasText: "Passed" }).waitFor({ timeout: 30_000 });
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await context.close();
  });

  test("nothing online can run it reads otherwise than nobody answers", async () => {
    const { page, context } = await openWindow(browser, lab.plane.url);
    const { id } = await lab.client.call("submit_run", {
      body: {
        harness: { id: "shell", version: "1.0.0" },
        case: { id: "windows", task: "true", placement: { os: "windows" } },
        runtime: "self",
      },
    });
    await page.goto(`/dashboard/runs/${id}`);
    const why = page.getByRole("region", { name: "Why it waits" });
    await expect.poll(() => why.textContent()).toContain("Nothing that is online can run this");
    expect(await why.textContent()).toContain("os-windows");
    await lab.client.call("cancel_run", { params: { id } });
    await context.close();
  });

  test("the list filters by its address, and says so when nothing matches", async () => {
    const { page, context } = await openWindow(browser, lab.plane.url);
    await page.goto("/dashboard/runs?status=failed");
    await page.getByText("No run matches the filter").waitFor();
    await page.getByRole("button", { name: "Clear filter" }).last().click();
    await page.getByRole("link", { name: "talker" }).waitFor();
    expect(new URL(page.url()).search).toBe("");
    await page.getByLabel("Status").selectOption("cancelled");
    await expect.poll(() => new URL(page.url()).search).toBe("?status=cancelled");
    await page.getByRole("link", { name: "talker" }).focus();
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await expect.poll(() => new URL(page.url()).pathname).toMatch(/^\/dashboard\/runs\/run_/);
    await context.close();
  });

  test.each(["light", "dark"] as const)("the pages are accessible in %s", async (theme) => {
    const { page, context } = await openWindow(browser, lab.plane.url, { theme });
    await page.goto("/dashboard/runs");
    await page.getByRole("link", { name: "talker" }).waitFor();
    await expectAccessible(page, `runs, ${theme}`);
    await page.getByRole("link", { name: "patient" }).click();
    for (const tab of ["Overview", "Result", "Placement", "Log"]) {
      await page.getByRole("tab", { name: tab }).click();
      await expectAccessible(page, `run: ${tab}, ${theme}`);
    }
    await context.close();
  });
});
