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

  /** Addresses that are one form, and what a viewer is told there. */
  const FORMS: Record<string, string> = {
    "/dashboard/datasets/new": "Adding a dataset is for members",
    "/dashboard/datasets/new?from=words": "Adding a dataset is for members",
    "/dashboard/scorecards/new": "Starting a scorecard is for members",
    "/dashboard/scorecards/new?dataset=words&harness=shell&runtime=pool": "Starting a scorecard is for members",
  };
  const READER = { name: "reader", scope: "read", role: "member", personal: false } as const;

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

  test("a viewer who comes to a form by its address is told whose it is, and nothing is refused", async () => {
    await lab.dataset("words", { hi: "echo hi" });
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    const refused: string[] = [];
    page.on("response", (response) => {
      if (response.status() === 403) refused.push(response.url());
    });
    await signIn(page, await keyOf("viewer"));
    for (const [path, words] of Object.entries(FORMS)) {
      await page.goto(path);
      await page.getByText(words).waitFor();
      expect(await page.locator("main form, main textarea").count(), path).toBe(0);
      expect(await page.getByRole("button", { name: /Check|Add|Start|Register|Save/ }).count(), path).toBe(0);
      await expectAccessible(page, path);
    }
    // What a role may, a key that only reads may not.
    await signIn(page, (await lab.client.call("create_api_key", { body: READER })).token ?? "");
    for (const path of ["/dashboard/runtimes/new", "/dashboard/runtimes/pool/edit", "/dashboard/harnesses/new"]) {
      await page.goto(path);
      await page.getByText("needs a key that may write").waitFor();
      expect(await page.locator("main form, main textarea").count(), path).toBe(0);
    }
    expect(refused).toEqual([]);
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await context.close();
  });

  test("a key of the workspace is shown the workspace's machines and is offered none of its own", async () => {
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    await signIn(page, await keyOf("admin"));
    await page.goto("/dashboard/runners");
    await page.getByText("The workspace has no runners").waitFor();
    expect(await page.getByRole("tab", { selected: true }).textContent()).toBe("The workspace's");
    expect(await page.getByRole("button", { name: "Pair a machine" }).count()).toBe(2);
    await page.getByRole("tab", { name: "My machines" }).click();
    await page.getByText("No machine of yours is paired").waitFor();
    expect(await page.getByRole("button", { name: "Pair a machine" }).count()).toBe(0);
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await context.close();
  });

  test("an address of a workspace that is not ours has ways on", async () => {
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    await signIn(page, await keyOf("member"));
    for (const workspace of ["other", "Not_an_id"]) {
      await page.goto(`/dashboard/runs?workspace=${workspace}`);
      await page.getByRole("heading", { name: "This workspace is not open to you" }).waitFor();
      await expectAccessible(page, "a workspace that is not ours");
      await page.getByRole("button", { name: "Go to my workspace" }).click();
      await expect.poll(() => page.getByRole("heading", { level: 1 }).textContent()).toBe("Scorecards");
      expect(new URL(page.url()).searchParams.get("workspace")).not.toBe(workspace);
    }
    await page.goto("/dashboard/runs?workspace=other");
    await page.getByRole("button", { name: "Sign out" }).click();
    await expect.poll(() => page.getByRole("heading", { level: 1 }).textContent()).toBe("Sign in to Everdict Edge");
    expect(await context.cookies()).toEqual([]);
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await context.close();
  });

  test("the long name of a key breaks inside its card", async () => {
    await lab.client.call("create_runtime", { body: { kind: "local", id: "host", version: "1.0.0" } });
    const { id } = await lab.plane.client(undefined, await keyOf("member")).call("submit_run", {
      body: { harness: { id: "shell", version: "1.0.0" }, case: { id: "hi", task: "echo hi" }, runtime: "host" },
    });
    const { page, context, conduct } = await openWindow(browser, lab.plane.url, { width: 1_280 });
    await page.goto(`/dashboard/runs/${id}`);
    const facts = page.getByRole("region", { name: "Facts" });
    await facts.getByText(/^key:key_/).waitFor();
    const over = await facts.evaluate((card) => {
      const text = document.createRange();
      text.selectNodeContents(card);
      return text.getBoundingClientRect().right - card.getBoundingClientRect().right;
    });
    expect(over).toBeLessThan(0);
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

  test("the sign-in page says nothing that an address puts into its mouth", async () => {
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    await page.goto("/dashboard/sign-in?error=UNAUTHENTICATED&detail=Call+0800+now&provider=Call+0800+now");
    const said = page.getByRole("alert");
    await expect.poll(() => said.textContent()).toContain("Sign in again");
    await page.goto("/dashboard/sign-in?error=UNAUTHENTICATED&provider=access_denied");
    await expect.poll(() => said.textContent()).toContain("The identity provider refused you access");
    await page.goto("/dashboard/sign-in?error=Call+0800+now");
    await page.getByLabel("API key").waitFor();
    expect(await said.count()).toBe(0);
    expect(await page.locator("body").textContent()).not.toContain("0800");
    expect(conduct).toEqual({ foreign: [], errors: [] });
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
