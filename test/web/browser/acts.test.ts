import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Lab, launchBrowser, noBrowser, openWindow } from "./support.ts";

/* What a page shows between an act and its answer, and how an act is taken back. */

/** Holds requests back until released; the server answers them itself. */
async function holdBack(page: Page, method: string, path: string): Promise<() => void> {
  let release = (): void => undefined;
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.route(`**${path}`, async (route) => {
    if (route.request().method() === method) await released;
    await route.continue();
  });
  return release;
}

describe.skipIf(noBrowser !== null)("acts", () => {
  let lab: Lab;
  let browser: Browser;

  beforeAll(async () => {
    lab = await Lab.start();
    browser = await launchBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await lab?.stop();
  });

  const roleOf = async (subject: string) =>
    (await lab.client.call("list_members")).items.find((member) => member.subject === subject)?.role;

  test("a role is shown as chosen at once, and the toast takes it back", async () => {
    await lab.client.call("set_member", { params: { subject: "root" }, body: { role: "admin" } });
    await lab.client.call("set_member", { params: { subject: "carol" }, body: { role: "viewer" } });
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    await page.goto("/dashboard/members");
    const role = page.getByLabel("Role of carol");
    const release = await holdBack(page, "PUT", "/members/carol");
    await role.selectOption("member");
    await expect.poll(() => role.inputValue()).toBe("member");
    expect(await roleOf("carol")).toBe("viewer");
    release();
    await page.getByText("carol is now member").waitFor();
    expect(await roleOf("carol")).toBe("member");
    await page.getByRole("button", { name: "Undo" }).click();
    await page.getByText("carol is now viewer").waitFor();
    expect(await role.inputValue()).toBe("viewer");
    expect(await roleOf("carol")).toBe("viewer");
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await context.close();
  });

  test("a dialog starts in its first field, over a page that steps back", async () => {
    const { page, context } = await openWindow(browser, lab.plane.url);
    await page.goto("/dashboard/members");
    await page.getByRole("button", { name: "Add a member" }).click();
    const dialog = page.getByRole("dialog");
    await expect.poll(() => dialog.getByLabel("Subject").evaluate((it) => it === document.activeElement)).toBe(true);
    const behind = page.locator(".fixed.inset-0");
    expect(await behind.evaluate((it) => getComputedStyle(it).backgroundColor)).not.toBe("rgba(0, 0, 0, 0)");
    await context.close();
  });

  test("a runtime that is archived as a whole has a page, where it is brought back", async () => {
    await lab.client.call("create_runtime", {
      body: {
        kind: "nomad",
        id: "attic",
        version: "1.0.0",
        addr: "http://127.0.0.1:9",
        image: "busybox",
        datacenters: ["*"],
      },
    } as never);
    await lab.client.call("archive_runtime", { params: { id: "attic" }, body: { archived: true } });
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    await page.goto("/dashboard/runtimes?archived=true");
    await page.getByRole("link", { name: "attic" }).click();
    await page.getByRole("button", { name: "Bring back" }).click();
    await page.getByText("attic is back").waitFor();
    await page.getByRole("button", { name: "Archive", exact: true }).waitFor();
    expect(await page.getByRole("link", { name: "Run a scorecard here" }).isVisible()).toBe(true);
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await context.close();
  });

  test("what is refused goes back to what it was, and says why", async () => {
    await lab.client.call("set_member", { params: { subject: "root" }, body: { role: "admin" } });
    const { page, context } = await openWindow(browser, lab.plane.url);
    await page.goto("/dashboard/members");
    const role = page.getByLabel("Role of root");
    const release = await holdBack(page, "PUT", "/members/root");
    await role.selectOption("viewer");
    await expect.poll(() => role.inputValue()).toBe("viewer");
    release();
    await page.getByText(/last admin|only admin/i).waitFor();
    await expect.poll(() => role.inputValue()).toBe("admin");
    await page.getByRole("row").filter({ hasText: "root" }).getByRole("button", { name: "Remove" }).click();
    const dialog = page.getByRole("alertdialog");
    await dialog.getByRole("button", { name: "Remove" }).click();
    await dialog.getByText(/last admin|only admin/i).waitFor();
    await expect.poll(() => role.count()).toBe(1);
    await context.close();
  });

  test("a harness is archived and brought back, by the toast and by its page", async () => {
    await lab.harness("old");
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    const archived = async () =>
      (await lab.client.call("get_harness", { params: { id: "old", version: "1.0.0" } })).archived;
    const archive = async () => {
      await page.getByRole("button", { name: "Archive" }).click();
      await page.getByRole("alertdialog").getByRole("button", { name: "Archive" }).click();
      await page.getByText("old@1.0.0 is archived").last().waitFor();
    };
    await page.goto("/dashboard/harnesses/old?version=1.0.0");
    await archive();
    await expect.poll(archived).toBe(true);
    await page.getByRole("button", { name: "Undo" }).click();
    await page.getByText("old@1.0.0 is back").waitFor();
    await expect.poll(archived).toBe(false);
    await archive();
    await page.getByRole("button", { name: "Bring back" }).click();
    await expect.poll(archived).toBe(false);
    await page.getByRole("button", { name: "Archive" }).waitFor();
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await context.close();
  });

  test("a promoted run stands first at once, a removed one is gone", async () => {
    const submit = async (id: string) =>
      lab.client.call("submit_run", {
        body: {
          harness: { spec: { kind: "command", command: "true" } },
          case: { id, task: "t" },
          runtime: "self",
        },
      });
    const ids = [];
    for (const id of ["first", "second", "third"]) ids.push((await submit(id)).id);
    const [first = "", , third = ""] = ids;
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    await page.goto("/dashboard/queue");
    const rows = page.getByRole("table", { name: "Waiting runs" }).locator("tbody tr");
    await expect.poll(() => rows.count()).toBe(3);
    const release = await holdBack(page, "POST", `/queue/entries/${third}/promote`);
    await rows
      .filter({ hasText: third.slice(-6) })
      .getByRole("button", { name: /promote/i })
      .click();
    await expect.poll(() => rows.first().textContent()).toContain(third.slice(-6));
    const position = async () =>
      (await lab.client.call("get_queue")).entries.find(({ runId }) => runId === third)?.position;
    expect(await position()).toBe(3);
    release();
    await page.getByText("Promoted").first().waitFor();
    expect(await position()).toBe(1);
    await expect.poll(() => rows.first().textContent()).toContain(third.slice(-6));
    await rows
      .filter({ hasText: first.slice(-6) })
      .getByRole("button", { name: /remove/i })
      .click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Remove from the queue" }).click();
    await expect.poll(() => rows.count()).toBe(2);
    expect((await lab.client.call("get_run", { params: { id: first } })).status).toBe("cancelled");
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await context.close();
  });
});
