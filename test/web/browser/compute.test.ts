import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { canonicalJson } from "../../../contracts/canonical.ts";
import { childEnvironment, ROOT } from "../../../scripts/environment.ts";
import { ended, until } from "../../support/control-plane.ts";
import { expectAccessible, Lab, launchBrowser, noBrowser, openWindow } from "./support.ts";

const FULL = {
  kind: "k8s" as const,
  id: "pool",
  version: "1.0.0",
  description: "All of it",
  tags: ["gpu", "eu"],
  capabilities: ["gpu" as const],
  image: "busybox:1.36",
  maxConcurrent: 20,
  memoryBudgetMb: 65_536,
  cpuBudget: 64_000,
  imagePullSecret: "REGISTRY",
  placementTimeoutSec: 600,
  trustZone: "workspace" as const,
  externalControl: true,
  warmPool: { min: 1, max: 3 },
  traceSource: { kind: "otel" as const, url: "https://traces.example.com/api", authSecret: "TRACES" },
  browserImage: "browser:1",
  gitImage: "git:2",
  hostGatewayAddr: "10.0.0.1",
  gpu: 1,
  authSecret: "K8S_TOKEN",
  namespace: "evals",
  createNamespace: true,
  runtimeClass: "gvisor",
  server: "https://k8s.example.com",
  nodeSelector: { pool: "eval", zone: "" },
  tolerations: [
    { key: "gpu", operator: "Exists" as const, effect: "NoSchedule" as const },
    { key: "spot", operator: "Equal" as const, value: "", tolerationSeconds: 60 },
  ],
};

describe.skipIf(noBrowser !== null)("compute", () => {
  let lab: Lab;
  let browser: Browser;

  beforeAll(async () => {
    lab = await Lab.start();
    browser = await launchBrowser();
    await lab.client.call("create_runtime", { body: FULL });
  });
  afterAll(async () => {
    await browser?.close();
    await lab?.stop();
  });

  const save = (page: Page) => page.getByRole("button", { name: /^(Register|Save as)/ });
  const isOpen = async (page: Page) => (await save(page).getAttribute("aria-disabled")) === null;

  test("a runtime is registered: the gate opens after a test that passed, and any edit closes it", async () => {
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    await page.goto("/dashboard/runtimes/new");
    await page.getByRole("radio", { name: "Nomad" }).click();
    await page.getByLabel("Id", { exact: true }).fill("nomad-eu");
    await page.getByLabel("Address", { exact: true }).fill("https://nomad.example.com");
    expect(await isOpen(page)).toBe(false);
    await save(page).click({ force: true });
    expect(await page.getByRole("heading", { level: 1 }).textContent()).toBe("Register a runtime");

    await page.getByLabel("Slots").fill("many");
    await page.getByRole("button", { name: "Check without saving" }).click();
    const dry = page.getByRole("region", { name: "Dry run" });
    await expect.poll(() => dry.textContent()).toContain("maxConcurrent");
    expect(await isOpen(page)).toBe(false);
    expect(await page.getByLabel("Slots").getAttribute("aria-invalid")).toBe("true");

    await page.getByLabel("Slots").fill("7");
    await page.getByRole("button", { name: "Check without saving" }).click();
    await expect.poll(() => isOpen(page)).toBe(true);
    await expectAccessible(page, "the form of a runtime, checked");
    await page.getByLabel("Description").fill("typed after the check");
    expect(await isOpen(page)).toBe(false);
    expect(await page.getByRole("status").filter({ hasText: "no longer hold" }).count()).toBe(1);

    // What was typed survives a reload.
    await page.reload();
    expect(await page.getByLabel("Id", { exact: true }).inputValue()).toBe("nomad-eu");
    await page.getByRole("button", { name: "Check without saving" }).click();
    await expect.poll(() => isOpen(page)).toBe(true);
    await save(page).click();
    await expect.poll(() => page.getByRole("heading", { level: 1 }).textContent()).toBe("nomad-eu");
    const { spec } = await lab.client.call("get_runtime", { params: { id: "nomad-eu", version: "1.0.0" } });
    expect(spec).toMatchObject({ kind: "nomad", maxConcurrent: 7, description: "typed after the check" });
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await context.close();
  });

  test("a connection test that fails says what and how to fix it, and opens nothing", async () => {
    const { page, context } = await openWindow(browser, lab.plane.url);
    await page.goto("/dashboard/runtimes/new?kind=nomad");
    await page.getByLabel("Id", { exact: true }).fill("closed");
    await page.getByLabel("Address", { exact: true }).fill("http://127.0.0.1:9");
    await page.getByRole("button", { name: "Test the connection" }).click();
    const result = page.getByRole("region", { name: "Connection test" });
    await expect.poll(() => result.textContent(), { timeout: 15_000 }).toContain("Failed");
    expect(await isOpen(page)).toBe(false);
    await context.close();
  });

  test("an edit that changes nothing saves every field as it was", async () => {
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    await page.goto("/dashboard/runtimes/pool/edit");
    await expect.poll(() => page.getByLabel("Version").inputValue()).toBe("1.0.1");
    await page.getByText("No field differs.").waitFor();
    await page.getByRole("button", { name: "Check without saving" }).click();
    await expect.poll(() => isOpen(page)).toBe(true);
    await save(page).click();
    await expect.poll(() => page.getByRole("heading", { level: 1 }).textContent()).toBe("pool");
    const { spec } = await lab.client.call("get_runtime", { params: { id: "pool", version: "1.0.1" } });
    expect(canonicalJson({ ...spec, version: "1.0.0" })).toBe(canonicalJson(FULL));
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await context.close();
  });

  test("a machine is paired, turns green, and is revoked by its name", async () => {
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    await page.goto("/dashboard/runners");
    await page.getByRole("button", { name: "Pair a machine" }).first().click();
    await page.getByLabel("Label").fill("laptop");
    await page.getByRole("button", { name: "Pair", exact: true }).click();
    const command = (await page.getByTestId("command").textContent()) ?? "";
    expect(command).toContain("rnr_");
    await page.getByText("Waiting for your machine to connect").waitFor();
    await expectAccessible(page, "pairing a machine");
    const folder = await mkdtemp(join(tmpdir(), "everdict-web-"));
    const child = spawn(
      "node",
      ["dist/everdict.mjs", "runner", "--api-url", lab.plane.url, "--executor", "host", "--work-dir", folder],
      {
        cwd: ROOT,
        env: {
          ...childEnvironment(),
          EVERDICT_PAIR: /rnr_[^\s'"]+/.exec(command)?.[0],
          XDG_STATE_HOME: folder,
          XDG_CONFIG_HOME: folder,
        },
        stdio: "ignore",
      },
    );
    try {
      await page.getByText("laptop is connected.").waitFor({ timeout: 20_000 });
      await page.getByRole("button", { name: "Done" }).click();
      const row = page.getByRole("row").filter({ hasText: "laptop" });
      await expect.poll(() => row.textContent()).toContain("Idle");
      await row.getByRole("button", { name: "Revoke" }).click();
      const dialog = page.getByRole("alertdialog");
      expect(await dialog.textContent()).toContain("laptop");
      await dialog.getByRole("button", { name: "Revoke" }).click();
      await expect.poll(() => row.count()).toBe(0);
      expect((await lab.client.call("list_runners", {})).items).toEqual([]);
    } finally {
      child.kill("SIGTERM");
      await ended(child);
      await rm(folder, { recursive: true, force: true });
    }
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await context.close();
  });

  test("a runtime whose relay is not paired says so; the command that pairs one says what to add", async () => {
    const body = { ...FULL, id: "behind", relay: "office", server: undefined, authSecret: undefined, context: "prod" };
    await lab.client.call("create_runtime", { body });
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    await page.goto("/dashboard/runtimes/behind");
    await page.getByText("relay office not paired").waitFor();
    await page.goto("/dashboard/runtimes");
    const row = page.getByRole("row").filter({ hasText: "behind" });
    await row.getByText("relay office not paired").waitFor();
    await page.goto("/dashboard/relays");
    await page.getByRole("button", { name: "Pair a relay" }).first().click();
    await page.getByLabel("Label").fill("office");
    await page.getByRole("button", { name: "Pair", exact: true }).click();
    await page.getByText("--allow-context NAME").waitFor();
    await page.getByText("--allow-host HOST:PORT").waitFor();
    await expectAccessible(page, "pairing a relay");
    await page.goto("/dashboard/runtimes/behind");
    await page.getByText("relay office offline").waitFor();
    await page.goto("/dashboard/runtimes");
    await row.getByText("relay office offline").waitFor();
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await context.close();
  });

  test("a cluster's status is live, and acts only when asked", async () => {
    await lab.client.call("create_runtime", { body: { kind: "local", id: "host", version: "1.0.0" } });
    const { page, context, conduct } = await openWindow(browser, lab.plane.url, { theme: "dark" });
    await page.goto("/dashboard/runtimes/host?tab=cluster");
    await page.getByText("It answers").waitFor({ timeout: 20_000 });
    // The header says the same, though nothing has run there yet.
    expect(await page.getByText("Answers", { exact: true }).count()).toBe(1);
    expect(await page.getByText("Not looked at").count()).toBe(0);
    await expectAccessible(page, "cluster status, dark");
    await page.getByRole("tab", { name: "Queue" }).click();
    await page.getByText("Nothing waits here").waitFor();
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await context.close();
  });

  test("a secret is stored, rotated and deleted; its value is nowhere on the page", async () => {
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    await page.goto("/dashboard/secrets");
    await page.getByRole("button", { name: "Store a secret" }).first().click();
    const form = page.getByRole("dialog");
    await form.getByLabel("Name").fill("model_key");
    await form.getByLabel("Value").fill("canary-value-4711");
    await expectAccessible(page, "storing a secret");
    await form.getByRole("button", { name: "Store" }).click();
    const row = page.getByRole("row").filter({ hasText: "MODEL_KEY" });
    await row.waitFor();
    const changed = async () =>
      (await lab.client.call("list_secrets", {})).items.find(({ name }) => name === "MODEL_KEY")?.updatedAt;
    const first = await changed();
    await row.getByRole("button", { name: "Rotate" }).click();
    await form.getByLabel("Value").fill("canary-value-4712");
    await form.getByRole("button", { name: "Rotate" }).click();
    await until("it is rotated", 10_000, async () => (await changed()) !== first);
    await form.waitFor({ state: "hidden" });
    expect((await page.content()).includes("canary-value")).toBe(false);
    await row.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Delete" }).click();
    await expect.poll(() => row.count()).toBe(0);
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await context.close();
  });

  test("a dataset is pasted: rows that are wrong are named, then it is added", async () => {
    const { page, context, conduct } = await openWindow(browser, lab.plane.url);
    await page.goto("/dashboard/datasets/new");
    await page.getByLabel("Id", { exact: true }).fill("pasted");
    const cases = page.getByLabel("Cases", { exact: true });
    await cases.fill('{"id":"a","task":"say hi"}\n{"id":"b","task":}\n');
    await page.getByText("line 2", { exact: true }).waitFor();
    await cases.fill('{"id":"a","task":"say hi"}\n{"id":"b","tsk":"oops"}\n');
    await page.getByRole("button", { name: "Check without saving" }).click();
    await page
      .getByText(/^case 2 'b', line 2/)
      .first()
      .waitFor();
    await expectAccessible(page, "a dataset with rows to change");
    await cases.fill('{"id":"a","task":"say hi"}\n{"id":"b","task":"say ho"}\n');
    await page.getByRole("button", { name: "Add 2 cases" }).click();
    await expect.poll(() => page.getByRole("heading", { level: 1 }).textContent()).toBe("pasted");
    expect((await lab.client.call("list_datasets", {})).items[0]).toMatchObject({ id: "pasted", cases: 2 });
    expect(conduct).toEqual({ foreign: [], errors: [] });
    await context.close();
  });

  test.each(["light", "dark"] as const)(
    "no page breaks a rule of accessibility, %s",
    { timeout: 240_000 },
    async (theme) => {
      await lab.harness(`axe-${theme}`);
      await lab.dataset(`axe-${theme}`, { a: "true" });
      const { page, context, conduct } = await openWindow(browser, lab.plane.url, { theme });
      for (const path of [
        "runtimes",
        "runtimes/new",
        "runtimes/pool",
        "runtimes/pool?tab=versions",
        "runtimes/pool/edit",
        "runners",
        "relays",
        "harnesses",
        `harnesses/axe-${theme}`,
        "harnesses/new",
        "datasets",
        `datasets/axe-${theme}`,
        "datasets/new",
        "secrets",
        "api-keys",
        "members",
        "audit",
        "limits",
        "sign-in",
      ]) {
        await page.goto(`/dashboard/${path}`);
        await page.locator("h1").waitFor();
        await page.locator("[aria-busy=true]").first().waitFor({ state: "detached" });
        // Only colours differ between the themes.
        await expectAccessible(page, `${path}, ${theme}`, theme === "dark" ? ["color-contrast"] : undefined);
      }
      expect(conduct).toEqual({ foreign: [], errors: [] });
      await context.close();
    },
  );
});
