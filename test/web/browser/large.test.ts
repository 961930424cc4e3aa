import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { until } from "../../support/control-plane.ts";
import { ProtocolRunner } from "../../support/protocol-runner.ts";
import { expectAccessible, Lab, launchBrowser, noBrowser, openWindow } from "./support.ts";

const CASES = 5_000;
const FRAME_MS = 50;
const SHIFT = 0.02;
declare global {
  interface Window {
    frames: { longest: number; count: number; stop: boolean };
    shift: number;
  }
}

interface TraceEvent {
  name: string;
  pid: number;
  tid: number;
  args: { name?: string };
  /** Microseconds of the clock, and of the processor. */
  dur?: number;
  tdur?: number;
}

/**
 * What the page takes for its longest frame while `act` is done, in ms: the longest task of its main thread in processor
 * time, because a busy machine makes the clock say more. The time between two frames by the clock is printed too.
 */
async function longestFrame(page: Page, what: string, act: () => Promise<void>): Promise<number> {
  const session = await page.context().newCDPSession(page);
  const events: TraceEvent[] = [];
  session.on("Tracing.dataCollected", ({ value }) => events.push(...(value as unknown as TraceEvent[])));
  await page.evaluate(() => {
    const state = { longest: 0, count: 0, stop: false };
    window.frames = state;
    let last = performance.now();
    const frame = (now: number) => {
      state.longest = Math.max(state.longest, now - last);
      state.count += 1;
      last = now;
      if (!state.stop) requestAnimationFrame(frame);
    };
    requestAnimationFrame((now) => {
      last = now;
      requestAnimationFrame(frame);
    });
  });
  await session.send("Tracing.start", {
    transferMode: "ReportEvents",
    traceConfig: { includedCategories: ["toplevel", "devtools.timeline"] },
  });
  await act();
  const complete = new Promise((resolve) => session.once("Tracing.tracingComplete", resolve));
  await session.send("Tracing.end");
  await complete;
  const clock = await page.evaluate(() => {
    window.frames.stop = true;
    return window.frames;
  });
  await session.detach();
  const main = new Set(
    events
      .filter(({ name, args }) => name === "thread_name" && args.name === "CrRendererMain")
      .map(({ pid, tid }) => `${pid}/${tid}`),
  );
  const tasks = events.filter(({ name, pid, tid }) => name.includes("RunTask") && main.has(`${pid}/${tid}`));
  const longest = Math.max(...tasks.map(({ tdur, dur }) => tdur ?? dur ?? 0)) / 1_000;
  expect(tasks.length).toBeGreaterThan(20);
  expect(clock.count).toBeGreaterThan(5);
  console.log(
    `${CASES} cases, ${what}: longest frame ${longest.toFixed(1)} ms of work; by the clock of this machine ${clock.longest.toFixed(0)} ms between two frames`,
  );
  return longest;
}

describe.skipIf(noBrowser !== null)("a scorecard of 5 000 cases", () => {
  let lab: Lab;
  let browser: Browser;
  let runner: ProtocolRunner;
  let id = "";

  beforeAll(async () => {
    lab = await Lab.start();
    browser = await launchBrowser();
    await lab.harness();
    await lab.client.call("create_dataset", {
      body: {
        id: "large",
        version: "1.0.0",
        cases: Array.from({ length: CASES }, (_, at) => ({
          id: `case-${String(at).padStart(4, "0")}-${["parse", "plan", "patch", "review", "ship"][at % 5]}`,
          task: "true",
          // What the protocol's runner answers has "hi" in its output.
          graders: [{ kind: "exit-code" }, { kind: "contains", value: at % 4 === 0 ? "absent" : "hi" }],
        })),
      },
    } as never);
    const { token } = await lab.client.call("pair_runner", { body: { label: "fast" } });
    runner = new ProtocolRunner({ url: lab.plane.url, token: token ?? "", slots: 64 }).start();
    const card = await lab.client.call("run_scorecard", {
      body: { dataset: { id: "large" }, harness: { id: "shell" }, runtime: "self", concurrency: 256 },
    } as never);
    id = card.id;
    await until(
      "all runs have ended",
      280_000,
      async () => (await lab.client.call("get_scorecard", { params: { id } })).finishedAt,
    );
  }, 300_000);
  afterAll(async () => {
    await runner?.stop();
    await browser?.close();
    await lab?.stop();
  });

  test("scrolls, filters and sorts without a frame over 50 ms, and nothing moves when data arrives", async () => {
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    await page.addInitScript(() => {
      window.shift = 0;
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries() as (PerformanceEntry & { value: number; hadRecentInput: boolean })[])
          if (!entry.hadRecentInput) window.shift += entry.value;
      }).observe({ type: "layout-shift", buffered: true });
    });
    await page.goto(`/dashboard/scorecards/${id}`);
    const table = page.getByRole("table", { name: "Cases" });
    await page.getByText("5,000 runs", { exact: true }).waitFor({ timeout: 30_000 });
    expect(await table.getAttribute("aria-rowcount")).toBe(String(CASES + 1));
    expect(await table.getByRole("row").count()).toBeLessThan(80);

    await page.waitForTimeout(800);
    const shift = await page.evaluate(() => window.shift);
    console.log(`${CASES} cases: layout shift ${shift.toFixed(4)}`);
    expect(shift).toBeLessThan(SHIFT);

    const region = table.locator("..");
    const scrolling = await longestFrame(page, "scrolling", async () => {
      await region.hover();
      for (let step = 0; step < 30; step++) {
        await page.mouse.wheel(0, 900);
        await page.waitForTimeout(16);
      }
    });
    const search = page.getByLabel("Search cases and causes");
    const filtering = await longestFrame(page, "filtering", async () => {
      await search.fill("");
      await page.waitForTimeout(300);
      await search.pressSequentially("patch 12", { delay: 60 });
      await page.waitForTimeout(400);
    });
    expect(await table.getAttribute("aria-rowcount")).toBe(
      String(
        1 +
          Array.from({ length: CASES }, (_, at) => at).filter(
            (at) => at % 5 === 2 && String(at).padStart(4, "0").includes("12"),
          ).length,
      ),
    );
    await search.fill("");
    await page.waitForTimeout(400);
    const sorting = await longestFrame(page, "sorting", async () => {
      await table.getByRole("button", { name: "Score" }).click();
      await page.waitForTimeout(300);
    });
    expect(Math.max(scrolling, filtering, sorting)).toBeLessThan(FRAME_MS);

    await page.getByRole("tab", { name: "Heat grid" }).click();
    await page.getByRole("group", { name: /5000 runs as squares/ }).focus();
    await page.keyboard.press("ArrowRight");
    await page.getByRole("status").filter({ hasText: "case-0000-parse: not passed" }).waitFor();
    await expectAccessible(page, "heat grid of 5 000");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "case-0000-parse" }).waitFor();
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await context.close();
  });

  test.each(["/dashboard/scorecards", "/dashboard/runs", "/dashboard/queue", "run"])(
    "nothing moves when data arrives: %s",
    async (path) => {
      const { page, context } = await openWindow(browser, lab.plane.url);
      await page.addInitScript(() => {
        window.shift = 0;
        new PerformanceObserver((list) => {
          for (const entry of list.getEntries() as (PerformanceEntry & { value: number })[])
            window.shift += entry.value;
        }).observe({ type: "layout-shift", buffered: true });
      });
      const { items } = await lab.client.call("list_runs", { query: { limit: 1 } });
      await page.goto(path === "run" ? `/dashboard/runs/${items[0]?.id}` : path);
      await page.getByRole("heading", { level: 1 }).waitFor();
      await page.waitForTimeout(2_500);
      const shift = await page.evaluate(() => window.shift);
      console.log(`${path}: layout shift ${shift.toFixed(4)}`);
      expect(shift).toBeLessThan(SHIFT);
      await context.close();
    },
  );
});
