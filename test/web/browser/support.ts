import { accessSync, constants } from "node:fs";
import { rm } from "node:fs/promises";
import AxeBuilder from "@axe-core/playwright";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { expect } from "vitest";
import type { Client } from "../../../contracts/client.ts";
import { ControlPlane, type RunnerOptions, startRunner } from "../../support/control-plane.ts";

const CHROMIUM = process.env.CHROMIUM_PATH ?? "/usr/bin/chromium";

/** Why the browser tests do not run here, or null. */
export const noBrowser: string | null = (() => {
  try {
    accessSync(CHROMIUM, constants.X_OK);
    return null;
  } catch {
    return `skipped: no browser at ${CHROMIUM} (apt-get install chromium, or set CHROMIUM_PATH)`;
  }
})();
if (noBrowser !== null) console.log(noBrowser);

export const launchBrowser = (): Promise<Browser> =>
  chromium.launch({
    executablePath: CHROMIUM,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--no-first-run",
    ],
  });

export interface Looks {
  theme?: "light" | "dark";
  width?: number;
  height?: number;
}

/** What a page did that it must not: other origins, errors in the console, scripts that the policy refused. */
export interface Conduct {
  foreign: string[];
  errors: string[];
}

/** A window of the dashboard, with what its page did. */
export async function openWindow(
  browser: Browser,
  url: string,
  looks: Looks = {},
): Promise<{ context: BrowserContext; page: Page; conduct: Conduct }> {
  const context = await browser.newContext({
    baseURL: url,
    viewport: { width: looks.width ?? 1_440, height: looks.height ?? 900 },
    colorScheme: looks.theme ?? "light",
    reducedMotion: "reduce",
    permissions: ["clipboard-read", "clipboard-write"],
  });
  const page = await context.newPage();
  const conduct: Conduct = { foreign: [], errors: [] };
  page.on("request", (request) => {
    const { origin, protocol } = new URL(request.url());
    if (origin !== url && protocol.startsWith("http")) conduct.foreign.push(request.url());
  });
  page.on("pageerror", (error) => conduct.errors.push(String(error)));
  page.on("console", (message) => {
    // The browser writes a line for every answer of 400 and above; the page shows those itself.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource"))
      conduct.errors.push(message.text());
  });
  return { context, page, conduct };
}

/** No violation that axe knows, in the theme that is shown. @param rules only these; all of them by default */
export async function expectAccessible(page: Page, where: string, rules?: string[]): Promise<void> {
  const builder = new AxeBuilder({ page });
  const { violations } = await (rules ? builder.withRules(rules) : builder).analyze();
  const found = violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html).join(" | ")}`);
  expect(found, `axe on ${where}`).toEqual([]);
}

/** A control plane, a runner of the caller and what they registered; everything is ended by `stop`. */
export class Lab {
  readonly plane: ControlPlane;
  readonly client: Client;
  #runners: (Awaited<ReturnType<typeof startRunner>> & { folder: string })[] = [];

  private constructor(plane: ControlPlane) {
    this.plane = plane;
    this.client = plane.client();
  }

  static async start(environment: NodeJS.ProcessEnv = {}): Promise<Lab> {
    return new Lab(await ControlPlane.start(environment));
  }

  async runner(options: RunnerOptions = {}): Promise<Awaited<ReturnType<typeof startRunner>>> {
    const runner = await startRunner(this.plane, options);
    this.#runners.push(runner);
    return runner;
  }

  async stop(): Promise<void> {
    for (const runner of this.#runners) {
      await runner.stop();
      await rm(runner.folder, { recursive: true, force: true });
    }
    await this.plane.stop();
  }

  /** A harness that does what its task says in shell. */
  async harness(id = "shell"): Promise<void> {
    await this.client.call("create_harness", {
      body: { kind: "command", id, version: "1.0.0", command: "sh -c {{task}}" },
    });
  }

  async dataset(id: string, tasks: Record<string, string>, graders?: object[]): Promise<void> {
    await this.client.call("create_dataset", {
      body: {
        id,
        version: "1.0.0",
        cases: Object.entries(tasks).map(([caseId, task]) => ({
          id: caseId,
          task,
          timeoutSec: 60,
          graders: (graders as never) ?? [{ kind: "exit-code" }],
        })),
      },
    });
  }
}
