import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { until } from "../../support/control-plane.ts";
import { expectAccessible, Lab, launchBrowser, noBrowser, openWindow } from "./support.ts";

describe.skipIf(noBrowser !== null)("scorecards", () => {
  let lab: Lab;
  let browser: Browser;

  beforeAll(async () => {
    lab = await Lab.start();
    browser = await launchBrowser();
    await lab.harness();
    await lab.runner({ maxConcurrent: 2 });
    await lab.dataset("mixed", {
      ok: "echo fine",
      low: "exit 3",
      slow: "sleep 2; echo done",
      stuck: "sleep 600",
      "also-ok": "true",
    });
    await lab.client.call("create_dataset", {
      body: { id: "gpus", version: "1.0.0", cases: [{ id: "big", task: "true", resources: { gpu: 1 } }] },
    } as never);
  });
  afterAll(async () => {
    await browser?.close();
    await lab?.stop();
  });

  const count = async (page: Page, name: string): Promise<number> =>
    Number((await page.getByRole("button", { name: new RegExp(`^${name} \\d`) }).textContent())?.replaceAll(/\D/g, ""));

  test("is submitted by the form, watched live, its failure read, and run again by class", async () => {
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    // The stuck case fails for its time; one case of the dataset has a shorter one.
    await lab.client.call("create_dataset", {
      body: {
        id: "story",
        version: "1.0.0",
        cases: [
          { id: "ok", task: "echo fine" },
          { id: "low", task: "exit 3" },
          { id: "slow", task: "sleep 2" },
          { id: "stuck", task: "sleep 600", timeoutSec: 2 },
        ],
      },
    } as never);
    await page.goto("/dashboard/");
    await page.getByRole("link", { name: "New scorecard" }).first().click();
    await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toBe("page-title");
    await page.getByRole("button", { name: "Start the scorecard" }).click();
    await page.getByText("choose a dataset", { exact: true }).waitFor();
    await page.getByLabel("Dataset").selectOption("story");
    await page.getByRole("region", { name: "My machines" }).getByLabel("Any of my machines").check();
    await page.getByLabel("Concurrency").fill("9000");
    await page.getByRole("button", { name: "Start the scorecard" }).click();
    await page.getByText("must be a whole number from 1 to 512").waitFor();
    await page.getByLabel("Concurrency").fill("3");
    await page.getByText("On Any of my machines 2 of 2 slots are free, and nothing waits there.").waitFor();
    await expectAccessible(page, "scorecard form");
    await page.getByRole("button", { name: "Start the scorecard" }).click();
    await expect.poll(() => new URL(page.url()).pathname).toMatch(/^\/dashboard\/scorecards\/sc_/);
    await page.getByRole("heading", { level: 1, name: "story × shell" }).waitFor();

    // Live, without a reload: the figures move by themselves until all four have ended.
    await page.getByRole("status").filter({ hasText: "Measured in part" }).waitFor({ timeout: 40_000 });
    await expect.poll(() => count(page, "Passed")).toBe(2);
    expect(await count(page, "Not passed")).toBe(1);
    expect(await count(page, "Failed")).toBe(1);
    const id = new URL(page.url()).pathname.split("/").at(-1) ?? "";

    await page.getByRole("tab", { name: /Failures/ }).click();
    const agent = page.getByRole("region", { name: "Agent" });
    await expect.poll(() => agent.textContent()).toContain("TIMEOUT");
    await expectAccessible(page, "failures");
    await agent.getByRole("link", { name: "stuck" }).click();
    const why = page.getByRole("region", { name: "Why it failed" });
    await expect.poll(() => why.textContent()).toContain("raise timeoutSec");
    await expectAccessible(page, "a failed run");
    await page.goBack();

    const before = (await lab.client.call("get_scorecard_grid", { params: { id } })).items.find(
      ({ caseId }) => caseId === "stuck",
    );
    await page.getByRole("button", { name: "Run these 1 again" }).click();
    await page.getByRole("status").filter({ hasText: "Running" }).first().waitFor({ timeout: 10_000 });
    // The button went away with what it ran again; whoever uses the keyboard stays where they were.
    await page.getByText("Nothing has failed so far").waitFor();
    expect(await page.evaluate(() => document.activeElement?.id)).toBe("panel-failures");
    await page.getByRole("status").filter({ hasText: "Measured in part" }).waitFor({ timeout: 40_000 });
    const after = (await lab.client.call("get_scorecard_grid", { params: { id } })).items.find(
      ({ caseId }) => caseId === "stuck",
    );
    expect(after?.runId).not.toBe(before?.runId);
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await context.close();
  });

  test("a place that cannot run the cases is seen, says what it lacks, and cannot be chosen by mouse or keyboard", async () => {
    const { page, context } = await openWindow(browser, lab.plane.url);
    await page.goto("/dashboard/scorecards/new?dataset=gpus&harness=shell");
    const machines = page.getByRole("list", { name: "My machines: cannot" });
    await machines.waitFor();
    expect(await machines.textContent()).toContain("needs gpu");
    const box = machines.getByRole("checkbox").first();
    await box.click({ force: true });
    expect(await box.isChecked()).toBe(false);
    await box.focus();
    await page.keyboard.press("Space");
    expect(await box.isChecked()).toBe(false);
    expect(await box.getAttribute("aria-disabled")).toBe("true");
    expect(await page.evaluate(() => document.activeElement?.getAttribute("type"))).toBe("checkbox");
    await context.close();
  });

  test("one that waits says why, and is cancelled by its name", async () => {
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    const card = await lab.client.call("run_scorecard", {
      body: {
        dataset: { id: "mixed" },
        harness: { id: "shell" },
        runtime: "self",
        concurrency: 4,
        cases: { ids: ["stuck"] },
        trials: 4,
      },
    } as never);
    await page.goto(`/dashboard/scorecards/${card.id}`);
    await page.getByText("Waiting for a free slot").waitFor({ timeout: 20_000 });
    await page.getByText("slots 2/2 of the runner in use").waitFor();

    // The same in the queue, where one of them is removed.
    await page.goto("/dashboard/queue");
    const waiting = page.getByRole("table", { name: "Waiting runs" });
    await expect.poll(() => waiting.getByRole("row").count()).toBe(3);
    // What its machines run is in the figure of the pool.
    expect(await page.getByRole("region", { name: "self", exact: true }).textContent()).toContain("2 of 2, 0 free");
    await expectAccessible(page, "queue");
    await waiting
      .getByRole("button", { name: /^Promote/ })
      .last()
      .click();
    await page.getByText("Promoted", { exact: true }).waitFor();
    await waiting
      .getByRole("button", { name: /^Remove/ })
      .first()
      .click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Remove from the queue" }).click();
    await expect.poll(() => waiting.getByRole("row").count()).toBe(2);
    await page.getByRole("tab", { name: "Last hour" }).click();
    await page.getByRole("img", { name: /Runs in flight by target/ }).waitFor();
    await expectAccessible(page, "queue, last hour");

    await page.goto(`/dashboard/scorecards/${card.id}`);
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    const dialog = page.getByRole("alertdialog");
    await expect.poll(() => dialog.textContent()).toContain(card.id);
    await dialog.getByRole("button", { name: "Cancel the scorecard" }).click();
    await page.getByRole("status").filter({ hasText: "Cancelled" }).waitFor({ timeout: 30_000 });
    expect((await lab.client.call("get_scorecard", { params: { id: card.id } })).status).toBe("cancelled");
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await context.close();
  });

  test("without a stream it asks instead, says so, and comes to the same end", async () => {
    const { page, context } = await openWindow(browser, lab.plane.url);
    // A proxy between may hold event streams back; nothing else is touched.
    await page.route(/\/stream$/, (route) => route.abort());
    const card = await lab.client.call("run_scorecard", {
      body: {
        dataset: { id: "mixed" },
        harness: { id: "shell" },
        runtime: "self",
        cases: { ids: ["ok", "slow", "low"] },
        trials: 3,
      },
    } as never);
    await page.goto(`/dashboard/scorecards/${card.id}`);
    await page.getByText("live updates are off, asking instead").waitFor({ timeout: 20_000 });
    await page.getByRole("status").filter({ hasText: "Measured" }).waitFor({ timeout: 40_000 });
    await expect.poll(() => count(page, "Passed")).toBe(6);
    await page.getByRole("link", { name: "slow" }).first().click();
    await page.getByRole("tab", { name: "Log" }).click();
    await page.getByText("done", { exact: true }).waitFor({ timeout: 20_000 });
    await context.close();
  });

  test("two are compared case by case, from the list and by address", async () => {
    const ids: string[] = [];
    for (const task of ["exit 1", "exit 0"]) {
      const name = `cmp-${ids.length}`;
      await lab.client.call("create_dataset", {
        body: {
          id: "cmp",
          version: `1.0.${ids.length}`,
          cases: [
            { id: "same", task: "true" },
            { id: "better", task },
          ],
        },
      } as never);
      expect(name).toMatch(/^cmp/);
      const card = await lab.client.call("run_scorecard", {
        body: { dataset: { id: "cmp", version: "latest" }, harness: { id: "shell" }, runtime: "self" },
      } as never);
      ids.push(card.id);
      await until(
        "it has ended",
        30_000,
        async () => (await lab.client.call("get_scorecard", { params: { id: card.id } })).finishedAt,
      );
    }
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    await page.goto("/dashboard/scorecards");
    for (const id of ids) await page.getByRole("checkbox", { name: new RegExp(id) }).check();
    await page.getByRole("button", { name: "Compare" }).click();
    await expect.poll(() => new URL(page.url()).search).toBe(`?a=${ids[0]}&b=${ids[1]}`);
    const table = page.getByRole("table", { name: "Cases of both scorecards" });
    await expect.poll(() => table.getByRole("row", { name: /better/ }).textContent()).toContain("+1.00");
    await expectAccessible(page, "comparison");
    await page.getByLabel("Show").selectOption("regressed");
    await page.getByText("No case matches the filter").waitFor();
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await context.close();
  });

  test.each(["light", "dark"] as const)("the pages are accessible in %s", async (theme) => {
    const { page, context } = await openWindow(browser, lab.plane.url, { theme });
    await page.goto("/dashboard/scorecards");
    await page.getByRole("link", { name: /^story × shell/ }).waitFor();
    await expectAccessible(page, `scorecards, ${theme}`);
    await page.getByRole("tab", { name: "Over time" }).click();
    await page.getByRole("img", { name: /Pass rate of story/ }).waitFor();
    await expectAccessible(page, `over time, ${theme}`);
    await page.getByRole("tab", { name: "List" }).click();
    await page.getByRole("link", { name: /^story × shell/ }).click();
    for (const tab of ["Heat grid", "Durations", "Failures", "Cases"]) {
      await page.getByRole("tab", { name: new RegExp(tab) }).click();
      await expectAccessible(page, `scorecard: ${tab}, ${theme}`);
    }
    await page.goto("/dashboard/scorecards/new?dataset=gpus&harness=shell");
    await page.getByRole("list", { name: "My machines: cannot" }).waitFor();
    await expectAccessible(page, `form, ${theme}`);
    await page.goto("/dashboard/queue?view=hour");
    await page.getByRole("img", { name: /Runs in flight by target/ }).waitFor();
    await expectAccessible(page, `queue, last hour, ${theme}`);
    await page.getByRole("tab", { name: "Now" }).click();
    await expectAccessible(page, `queue, ${theme}`);
    const [a, b] = (await lab.client.call("list_scorecards", { query: { limit: 2 } })).items;
    await page.goto(`/dashboard/scorecards/compare?a=${b?.id}&b=${a?.id}`);
    await page.getByRole("table", { name: "Cases of both scorecards" }).waitFor();
    await expectAccessible(page, `comparison, ${theme}`);
    await page.goto("/dashboard/nowhere");
    await page.getByText("Nothing is at this address").waitFor();
    await expectAccessible(page, `no such page, ${theme}`);
    await context.close();
  });
});
