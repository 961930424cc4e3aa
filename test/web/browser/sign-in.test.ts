import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type OidcServer, oidcEnvironment, oidcServer } from "../../support/oidc-server.ts";
import { expectAccessible, Lab, launchBrowser, noBrowser, openWindow } from "./support.ts";

describe.skipIf(noBrowser !== null)("who is signed in", () => {
  let lab: Lab;
  let browser: Browser;
  let oidc: OidcServer;

  beforeAll(async () => {
    oidc = await oidcServer();
    lab = await Lab.start(oidcEnvironment(oidc));
    oidc.redirects.push(`${lab.plane.url}/session/oidc/callback`);
    browser = await launchBrowser();
    await lab.harness();
    await lab.client.call("create_runtime", {
      body: {
        kind: "k8s",
        id: "pool",
        version: "1.0.0",
        server: "https://k8s.example.com",
        authSecret: "K",
        image: "i:1",
      },
    });
    await lab.client.call("put_secret", {
      params: { name: "K" },
      body: { value: "a-value-of-a-secret", use: "cluster", hosts: ["k8s.example.com"] },
    });
  });
  afterAll(async () => {
    await browser?.close();
    await lab?.stop();
    oidc?.close();
  });

  const keyOf = async (role: "viewer" | "member" | "admin") =>
    (await lab.client.call("create_api_key", { body: { name: `${role} key`, scope: "admin", role } })).token ?? "";

  async function signIn(page: Page, key: string): Promise<void> {
    await page.goto("/dashboard/sign-in?to=/dashboard/runtimes");
    await page.getByLabel("API key").fill(key);
    await page.getByRole("button", { name: "Sign in with the key" }).click();
    await expect.poll(() => page.getByRole("heading", { level: 1 }).textContent()).toBe("Runtimes");
  }

  const BUTTONS: Record<string, string> = {
    "/dashboard/runners?whose=workspace": "Pair a machine",
    "/dashboard/relays": "Pair a relay",
    "/dashboard/members": "Add a member",
    "/dashboard/datasets": "Add a dataset",
    "/dashboard/scorecards": "New scorecard",
  };

  test("a key signs in as exactly what it is: a viewer is shown nothing that would be refused", async () => {
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    const refused: string[] = [];
    page.on("response", (response) => {
      if (response.status() === 403) refused.push(response.url());
    });
    await signIn(page, await keyOf("viewer"));
    const cookies = await context.cookies();
    expect(cookies).toHaveLength(1);
    expect(cookies[0]).toMatchObject({ httpOnly: true, sameSite: "Lax", path: "/" });
    expect(await page.evaluate(() => document.cookie)).toBe("");
    expect(await page.evaluate(() => JSON.stringify(localStorage) + JSON.stringify(sessionStorage))).not.toContain(
      "ak_",
    );
    for (const [path, button] of Object.entries(BUTTONS)) {
      await page.goto(path);
      await page.locator("h1").waitFor();
      await page.locator("[aria-busy=true]").first().waitFor({ state: "detached" });
      expect(await page.getByRole("button", { name: button }).count(), `${button} on ${path}`).toBe(0);
      expect(await page.getByRole("link", { name: button }).count(), `${button} on ${path}`).toBe(0);
    }
    await page.goto("/dashboard/runtimes/pool");
    await page.getByRole("tab", { name: "Cluster status" }).waitFor();
    expect(await page.getByRole("button", { name: "Archive" }).count()).toBe(0);
    expect(await page.getByRole("link", { name: "Secrets" }).count()).toBe(0);
    expect(await page.getByRole("link", { name: "Audit" }).count()).toBe(0);
    expect(refused).toEqual([]);
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await context.close();
  });

  test("a member cannot read the pages of secrets, and the API says so too", async () => {
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    await signIn(page, await keyOf("member"));
    await page.goto("/dashboard/secrets");
    await page.getByText("Secrets are for admins").waitFor();
    expect(await page.getByText("k8s.example.com").count()).toBe(0);
    const status = await page.evaluate(async () => (await fetch("/secrets")).status);
    expect(status).toBe(403);
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await context.close();
  });

  test("a key that is revoked ends the session, and one comes back to where one was", async () => {
    const { page, context } = await openWindow(browser, lab.plane.url);
    await signIn(page, await keyOf("admin"));
    const { items } = await lab.client.call("list_api_keys", {});
    for (const { id, name } of items)
      if (name === "admin key") await lab.client.call("revoke_api_key", { params: { id } });
    await page.goto("/dashboard/harnesses");
    await expect.poll(() => page.getByRole("heading", { level: 1 }).textContent()).toBe("Sign in to Everdict Edge");
    await expectAccessible(page, "sign-in after an ended session");
    await page.getByLabel("API key").fill(await keyOf("admin"));
    await page.getByRole("button", { name: "Sign in with the key" }).click();
    await expect.poll(() => page.getByRole("heading", { level: 1 }).textContent()).toBe("Harnesses");
    await page.getByRole("button", { name: /^Workspace/ }).click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    await expect.poll(() => page.getByRole("heading", { level: 1 }).textContent()).toBe("Sign in to Everdict Edge");
    expect(await context.cookies()).toEqual([]);
    await context.close();
  });

  test("a person signs in at the identity provider and acts with their own role", async () => {
    await lab.client.call("set_member", { params: { subject: "ada" }, body: { role: "member" } });
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    await page.goto("/dashboard/sign-in?to=/dashboard/harnesses");
    await page.getByRole("link", { name: /^Continue with/ }).click();
    await expect.poll(() => page.getByRole("heading", { level: 1 }).textContent()).toBe("Harnesses");
    await page.getByRole("link", { name: "shell" }).waitFor();
    const me = await page.evaluate(async () =>
      (await fetch("/me", { headers: { "x-everdict-workspace": "default" } })).json(),
    );
    expect(me).toMatchObject({ subject: "ada", role: "member", personal: true });
    expect(conduct.errors).toEqual([]);
    expect(conduct.foreign.every((url) => url.startsWith(oidc.issuer))).toBe(true);
    await context.close();
  });
});
