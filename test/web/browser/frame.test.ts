import { gzipSync } from "node:zlib";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectAccessible, Lab, launchBrowser, noBrowser, openWindow } from "./support.ts";

/** First load, compressed as a server would send it. */
const FIRST_LOAD_BYTES = 200 * 1024;

describe.skipIf(noBrowser !== null)("the frame around every page", () => {
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

  test("the first load is small, and runs nothing that is not a file of this site", async () => {
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    const scripts: { url: string; bytes: number }[] = [];
    page.on("response", async (response) => {
      if (response.request().resourceType() !== "script") return;
      scripts.push({ url: response.url(), bytes: gzipSync(await response.body()).length });
    });
    const answer = await page.goto("/dashboard/scorecards");
    await page.getByText("No scorecards yet").waitFor();
    await page.waitForLoadState("networkidle");
    const total = scripts.reduce((sum, { bytes }) => sum + bytes, 0);
    console.log(`first load: ${(total / 1024).toFixed(1)} KiB of JavaScript, compressed, in ${scripts.length} files`);
    expect(scripts.length).toBeGreaterThan(2);
    expect(total).toBeLessThan(FIRST_LOAD_BYTES);
    const policy = answer?.headers()["content-security-policy"] ?? "";
    expect(policy).toContain("script-src 'self';");
    expect(policy).toContain("connect-src 'self'");
    expect(await page.locator("script:not([src])").count()).toBe(0);
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await context.close();
  });

  test("hashed files are kept for ever, pages are asked for again, and what is no file of the dashboard is a page", async () => {
    const html = await (await fetch(`${lab.plane.url}/dashboard/runs/anything`)).text();
    const asset = /\/dashboard\/assets\/[^"]+\.js/.exec(html)?.[0] ?? "";
    const file = await fetch(lab.plane.url + asset);
    expect(file.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
    expect((await fetch(`${lab.plane.url}/dashboard/`)).headers.get("cache-control")).toBe("no-cache");
    expect((await fetch(`${lab.plane.url}/dashboard/assets/none.js`)).status).toBe(404);
    expect((await fetch(`${lab.plane.url}/dashboardx`)).status).toBe(404);
    expect(await (await fetch(`${lab.plane.url}/docs/`)).text()).toContain("swagger-ui");
    expect(await (await fetch(`${lab.plane.url}/`)).text()).toContain("/dashboard/");
  });

  test("everything is reached by keyboard: skip link, jumps, palette, help, and a focus that can be seen", async () => {
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    await page.goto("/dashboard/scorecards");
    await page.getByText("No scorecards yet").waitFor();
    await page.keyboard.press("Tab");
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe("Skip to the content");
    await page.keyboard.press("Enter");
    expect(await page.evaluate(() => document.activeElement?.id)).toBe("main");

    // Whatever Tab comes to shows that it has the focus.
    await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
    for (let step = 0; step < 25; step++) {
      await page.keyboard.press("Tab");
      const seen = await page.evaluate(() => {
        const element = document.activeElement;
        if (!element || element === document.body) return "body";
        const style = getComputedStyle(element);
        const box = element.getBoundingClientRect();
        const outlined = style.outlineStyle !== "none" && Number.parseFloat(style.outlineWidth) >= 1;
        return outlined && box.width > 0 && box.height > 0 ? "seen" : element.outerHTML.slice(0, 200);
      });
      if (seen === "body") break;
      expect(seen).toBe("seen");
    }

    await page.keyboard.press("Escape");
    await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
    await page.keyboard.press("g");
    await page.keyboard.press("r");
    await page.getByRole("heading", { level: 1, name: "Runs" }).waitFor();
    await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toBe("page-title");
    await expect.poll(() => page.getByRole("status").allTextContents()).toContain("Runs · Everdict Edge");

    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
    await expectAccessible(page, "help");
    await page.getByLabel("Single letters and two-key jumps").uncheck();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.keyboard.press("g");
    await page.keyboard.press("q");
    await page.waitForTimeout(300);
    expect(new URL(page.url()).pathname).toBe("/dashboard/runs");

    await page.keyboard.press("Control+k");
    const palette = page.getByRole("dialog", { name: "Command palette" });
    await palette.waitFor();
    await expectAccessible(page, "palette");
    await page.keyboard.type("queue");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Queue" }).waitFor();
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await context.close();
  });

  test("the theme is chosen once and kept, and follows the system when nothing was chosen", async () => {
    const { page, context } = await openWindow(browser, lab.plane.url, { theme: "dark" });
    const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
    await page.goto("/dashboard/runs");
    expect(await theme()).toBe("dark");
    await page.getByRole("button", { name: "Theme: light" }).click();
    expect(await theme()).toBe("light");
    await page.reload();
    expect(await theme()).toBe("light");
    await page.getByRole("button", { name: "Theme: system" }).click();
    await expect.poll(theme).toBe("dark");
    await page.emulateMedia({ colorScheme: "light" });
    await expect.poll(theme).toBe("light");
    await context.close();
  });

  test("a part that could not be loaded is asked for again", async () => {
    const { page, context } = await openWindow(browser, lab.plane.url);
    let broken = 0;
    await page.route(/\/dashboard\/assets\/index-[^/]*\.js$/, (route) => {
      broken += 1;
      return broken === 1 ? route.abort() : route.continue();
    });
    await page.goto("/dashboard/runs");
    await page.getByRole("heading", { level: 1, name: "Runs" }).waitFor();
    expect(broken).toBe(2);
    await context.close();
  });

  test("reduced motion is honoured", async () => {
    const { page, context } = await openWindow(browser, lab.plane.url);
    await page.goto("/dashboard/runs");
    await page.getByText("No runs yet").waitFor();
    const seconds = await page.evaluate(() => {
      const probe = document.createElement("div");
      probe.className = "animate-spin pulse transition-colors";
      document.body.append(probe);
      const style = getComputedStyle(probe);
      return [style.animationDuration, style.transitionDuration].map(Number.parseFloat);
    });
    expect(Math.max(...seconds)).toBeLessThan(0.001);
    await context.close();
  });

  test("a workspace is part of the address as soon as there is a choice", async () => {
    await lab.client.call("create_workspace", { body: { id: "acme", name: "Acme" } });
    const { page, context } = await openWindow(browser, lab.plane.url);
    await page.goto("/dashboard/runs");
    await page.getByText("No runs yet").waitFor();
    await expect.poll(() => new URL(page.url()).search).toBe("?workspace=default");
    await page.getByRole("button", { name: /Workspace default/ }).click();
    await page.getByRole("menuitem", { name: /Acme/ }).click();
    await expect
      .poll(() => new URL(page.url()).pathname + new URL(page.url()).search)
      .toBe("/dashboard/scorecards?workspace=acme");
    await page.getByRole("link", { name: "Runs" }).click();
    await expect.poll(() => new URL(page.url()).search).toBe("?workspace=acme");
    await page.goto("/dashboard/runs?workspace=nobody");
    await page.getByRole("alert").filter({ hasText: "workspace 'nobody' does not exist" }).waitFor();
    await context.close();
  });

  test("a viewer sees no button that would be refused", async () => {
    const { token } = await lab.client.call("create_api_key", {
      body: { name: "eyes", role: "viewer", scope: "read" },
    });
    const run = await lab.client.call("submit_run", {
      body: { harness: { id: "shell", version: "1.0.0" }, case: { id: "held", task: "sleep 60" }, runtime: "self" },
    } as never);
    const waiting = await lab.client.call("submit_run", {
      body: { harness: { id: "shell", version: "1.0.0" }, case: { id: "waits", task: "true" }, runtime: "self" },
    } as never);
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    await context.request.post("/session", {
      data: { apiKey: token },
      headers: { origin: lab.plane.url, "sec-fetch-site": "same-origin" },
    });
    const refused: string[] = [];
    page.on("response", (response) => {
      if (response.status() === 403) refused.push(response.url());
    });
    await page.goto(`/dashboard/runs/${run.id}`);
    await page.getByRole("heading", { name: "held" }).waitFor();
    expect(await page.getByRole("button", { name: "Cancel", exact: true }).count()).toBe(0);
    await page.goto("/dashboard/scorecards");
    await page.getByText("No scorecards yet").waitFor();
    expect(await page.getByRole("link", { name: "New scorecard" }).count()).toBe(0);
    await page.goto("/dashboard/queue");
    await page.getByRole("tab", { name: "Now" }).waitFor();
    await page
      .getByText("Nothing waits")
      .or(page.getByRole("link", { name: waiting.id }))
      .waitFor();
    expect(await page.getByRole("button", { name: /^(Promote|Remove)/ }).count()).toBe(0);
    expect(refused).toEqual([]);
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await lab.client.call("cancel_run", { params: { id: run.id } });
    await lab.client.call("cancel_run", { params: { id: waiting.id } }).catch(() => undefined);
    await context.close();
  });

  test("a control plane that goes away is said, and what was seen stays; when it is back, the page goes on", async () => {
    const { id } = await lab.client.call("submit_run", {
      body: {
        harness: { id: "shell", version: "1.0.0" },
        case: { id: "survivor", task: "for i in $(seq 1 900); do echo beat $i; sleep 0.2; done" },
        runtime: "self",
      },
    } as never);
    const { page, context } = await openWindow(browser, lab.plane.url);
    await page.goto(`/dashboard/runs/${id}?tab=log`);
    await page.getByText("beat 2", { exact: true }).waitFor({ timeout: 20_000 });
    await lab.plane.kill();
    await page.getByText("The control plane does not answer.").waitFor({ timeout: 20_000 });
    await page
      .getByRole("status")
      .filter({ hasText: /reconnecting|asking instead/ })
      .first()
      .waitFor({ timeout: 20_000 });
    expect(await page.getByRole("heading", { name: "survivor" }).isVisible()).toBe(true);
    await expectAccessible(page, "connection lost");
    await lab.plane.up();
    await page.getByText("The control plane does not answer.").waitFor({ state: "detached", timeout: 30_000 });
    await page.getByText("live", { exact: true }).waitFor({ timeout: 40_000 });
    await lab.client.call("cancel_run", { params: { id } });
    await page.getByRole("status").filter({ hasText: "Cancelled" }).waitFor({ timeout: 30_000 });
    await context.close();
  });

  test("a page that was never loaded waits for a control plane that is away, and the one before stays", async () => {
    const { page, context } = await openWindow(browser, lab.plane.url);
    await page.goto("/dashboard/members");
    await page.getByText("Nobody but you").waitFor();
    await lab.plane.kill();
    await page.getByRole("link", { name: "Audit" }).click();
    await page.getByText("The control plane does not answer.").waitFor({ timeout: 20_000 });
    await page.waitForTimeout(3_000);
    expect(await page.getByRole("heading", { level: 1, name: "Members" }).isVisible()).toBe(true);
    await lab.plane.up();
    await page.getByRole("heading", { level: 1, name: "Audit" }).waitFor({ timeout: 30_000 });
    await page.getByText("The control plane does not answer.").waitFor({ state: "detached", timeout: 30_000 });
    await context.close();
  });
});
