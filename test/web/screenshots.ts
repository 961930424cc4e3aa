import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { ensureBuilt } from "../../scripts/build.ts";
import { ROOT } from "../../scripts/environment.ts";
import { until } from "../support/control-plane.ts";
import { Lab, launchBrowser, noBrowser, openWindow } from "./browser/support.ts";

/*
 * `npm run screenshots`: each page, light and dark, narrow and wide, of a real control plane with a runner at work, into
 * screenshots/ (not committed). To be looked at. `npm run screenshots -- queue run-` takes only pages whose name has one of the words.
 */

const FOLDER = join(ROOT, "screenshots");
const SIZES = [
  [1_440, 1_000],
  [380, 1_500],
  ...(process.env.SCREENSHOT_WIDE ? ([[2_560, 1_400]] as const) : []),
] as const;
const SETTLE_MS = 400;
const BUSY_MS = 10_000;

interface Story {
  measured: string;
  before: string;
  running: string;
  failedRun: string;
  passedRun: string;
  liveRun: string;
  waitingRun: string;
}

const task = (at: number): string => {
  if (at % 17 === 5) return "sleep 60";
  if (at % 11 === 3) return "echo 'assertion failed: expected 4, found 5' >&2; exit 1";
  return `echo "\\033[32mok\\033[0m step ${at}"; sleep 0.${at % 7}`;
};

/** What a workspace looks like after some days of work, made through the API. */
async function tell(lab: Lab): Promise<Story> {
  const { client } = lab;
  await lab.harness("solver");
  await client.call("create_harness", {
    body: {
      kind: "command",
      id: "solver",
      version: "1.1.0",
      command: "sleep 0.02; sh -c {{task}}",
      description: "Obeys its task",
    },
  } as never);
  await client.call("create_dataset", {
    body: {
      id: "regressions",
      version: "2026.11.0",
      description: "What went wrong once",
      cases: Array.from({ length: 120 }, (_, at) => ({
        id: `${["parser", "planner", "patcher", "reviewer"][at % 4]}/case-${String(at + 1).padStart(3, "0")}`,
        task: task(at),
        timeoutSec: at % 17 === 5 ? 1 : 60,
        tags: [at % 2 ? "slow" : "quick"],
        graders: [
          { kind: "exit-code" },
          ...(at % 5 === 0 ? [{ kind: "contains", value: at % 10 ? "ok" : "perfect", weight: 2 }] : []),
        ],
      })),
    },
  } as never);
  await client.call("create_dataset", {
    body: {
      id: "gpu-kernels",
      version: "1.0.0",
      cases: [
        { id: "matmul", task: "true", resources: { gpu: 1 } },
        { id: "copy", task: "true" },
      ],
    },
  } as never);
  await client.call("put_secret", {
    params: { name: "K8S_TOKEN" },
    body: { value: "not-a-real-token", use: "cluster", hosts: ["127.0.0.1:9"] },
  });
  await client.call("put_secret", { params: { name: "MODEL_KEY" }, body: { value: "not-a-real-key" } });
  await client.call("create_runtime", {
    body: {
      kind: "nomad",
      id: "gpu-eu",
      version: "1.0.0",
      addr: "http://127.0.0.1:9",
      image: "busybox:1.36",
      datacenters: ["*"],
      maxConcurrent: 20,
      memoryBudgetMb: 65_536,
      cpuMhzPerCore: 3_000,
      gpu: 1,
      tags: ["gpu"],
      description: "Eight cards in the cellar",
    },
  } as never);
  await client.call("create_runtime", {
    body: {
      kind: "k8s",
      id: "pool",
      version: "1.0.0",
      server: "http://127.0.0.1:9",
      authSecret: "K8S_TOKEN",
      image: "busybox:1.36",
      namespace: "evals",
    },
  } as never);
  await client.call("create_runtime", {
    body: {
      kind: "k8s",
      id: "pool",
      version: "1.1.0",
      server: "http://127.0.0.1:9",
      authSecret: "K8S_TOKEN",
      image: "busybox:1.37",
      namespace: "evals",
      maxConcurrent: 40,
    },
  } as never);
  await client.call("set_member", { params: { subject: "ada@example.org" }, body: { role: "admin" } });
  await client.call("set_member", { params: { subject: "grace@example.org" }, body: { role: "member" } });
  await client.call("create_api_key", { body: { name: "nightly", scope: "write", role: "member" } });
  await client.call("pair_runner", { body: { label: "workshop" } });
  await client.call("pair_workspace_runner", { body: { label: "build-box" } });

  const card = async (version: string, more: object = {}) =>
    (
      await client.call("run_scorecard", {
        body: {
          dataset: { id: "regressions" },
          harness: { id: "solver", version },
          runtime: "self",
          concurrency: 12,
          retries: 0,
          ...more,
        },
      } as never)
    ).id;
  const ended = (id: string) =>
    until("it has ended", 180_000, async () => (await client.call("get_scorecard", { params: { id } })).finishedAt);
  const before = await card("1.0.0");
  await ended(before);
  await ended(await card("1.1.0", { cases: { limit: 40 } }));
  const measured = await card("1.1.0");
  await ended(measured);
  const { items } = await client.call("get_scorecard_grid", { params: { id: measured } });
  const pick = (status: string) => items.find((cell) => cell.status === status)?.runId ?? "";
  const submit = async (id: string, command: string, placement?: object) =>
    (
      await client.call("submit_run", {
        body: {
          harness: { id: "solver", version: "latest" },
          case: { id, task: command, ...placement },
          runtime: "self",
        },
      } as never)
    ).id;
  const liveRun = await submit(
    "long/refactor",
    "i=0; while [ $i -lt 4000 ]; do i=$((i+1)); printf '\\033[3%sm[agent]\\033[0m step %s: reading src/module_%s.ts and thinking about it\\n' $((i%7+1)) $i $((i%23)); [ $((i%40)) = 0 ] && echo \"warning: tool call $i took longer than expected\" >&2; sleep 0.1; done",
  );
  const waitingRun = await submit("desktop/print-dialog", "true", { placement: { os: "windows" } });
  const running = await card("latest", {
    concurrency: 3,
    trials: 3,
    dataset: { id: "regressions", version: "latest" },
  });
  await client.call("run_scorecard", {
    body: { dataset: { id: "regressions" }, harness: { id: "solver" }, runtime: "pool", concurrency: 6 },
  } as never);
  await new Promise((resolve) => setTimeout(resolve, 6_000));
  return { measured, before, running, failedRun: pick("failed"), passedRun: pick("succeeded"), liveRun, waitingRun };
}

const pages = (story: Story): readonly (readonly [string, string])[] => [
  ["scorecards", "/scorecards"],
  ["scorecards-trend", "/scorecards?view=trend"],
  ["scorecard-new", "/scorecards/new?dataset=gpu-kernels&harness=solver"],
  ["scorecard", `/scorecards/${story.measured}`],
  ["scorecard-running", `/scorecards/${story.running}`],
  ["scorecard-failures", `/scorecards/${story.measured}?tab=failures`],
  ["scorecard-heat", `/scorecards/${story.measured}?tab=heat`],
  ["scorecard-durations", `/scorecards/${story.measured}?tab=durations`],
  ["compare", `/scorecards/compare?a=${story.before}&b=${story.measured}&sort=-difference`],
  ["runs", "/runs"],
  ["runs-empty", "/runs?status=cancelled&target=none"],
  ["run-passed", `/runs/${story.passedRun}`],
  ["run-result", `/runs/${story.passedRun}?tab=result`],
  ["run-failed", `/runs/${story.failedRun}`],
  ["run-log", `/runs/${story.liveRun}?tab=log&q=warning`],
  ["run-waiting", `/runs/${story.waitingRun}`],
  ["run-placement", `/runs/${story.failedRun}?tab=placement`],
  ["queue", "/queue"],
  ["queue-hour", "/queue?view=hour"],
  ["runtimes", "/runtimes"],
  ["runtime", "/runtimes/pool"],
  ["runtime-new", "/runtimes/new"],
  ["runtime-edit", "/runtimes/gpu-eu/edit"],
  ["runners", "/runners"],
  ["relays", "/relays"],
  ["harnesses", "/harnesses"],
  ["harness", "/harnesses/solver"],
  ["harness-new", "/harnesses/new"],
  ["datasets", "/datasets"],
  ["dataset", "/datasets/regressions"],
  ["dataset-new", "/datasets/new"],
  ["secrets", "/secrets"],
  ["api-keys", "/api-keys"],
  ["members", "/members"],
  ["audit", "/audit"],
  ["limits", "/limits"],
  ["sign-in", "/sign-in"],
  ["not-found", "/nowhere"],
];

if (noBrowser !== null) process.exit(0);
await ensureBuilt();
const words = process.argv.slice(2);
const lab = await Lab.start();
const browser = await launchBrowser();
try {
  await rm(FOLDER, { recursive: true, force: true });
  await mkdir(FOLDER, { recursive: true });
  await lab.runner({ maxConcurrent: 6 });
  const story = await tell(lab);
  const wanted = pages(story).filter(([name]) => words.length === 0 || words.some((word) => name.includes(word)));
  for (const theme of ["light", "dark"] as const) {
    for (const [width, height] of SIZES) {
      const { page, context, conduct } = await openWindow(browser, lab.plane.url, { theme, width, height });
      for (const [name, path] of wanted) {
        await page.goto(`/dashboard${path}`);
        // Until nothing is held for what is being read.
        await page.waitForTimeout(SETTLE_MS);
        await page
          .waitForFunction(
            () => document.querySelector("h1") && !document.querySelector("[aria-busy=true], .pulse"),
            null,
            {
              timeout: BUSY_MS,
            },
          )
          .catch(() => console.log(`${name}, ${theme}, ${width}: still busy after ${BUSY_MS} ms`));
        await page.waitForTimeout(SETTLE_MS);
        await page.screenshot({ path: join(FOLDER, `${name}-${width}-${theme}.png`) });
      }
      if (conduct.errors.length + conduct.foreign.length > 0) console.log(theme, width, conduct);
      await context.close();
    }
  }
  console.log(`${wanted.length * SIZES.length * 2} screenshots in ${FOLDER}`);
} finally {
  await browser.close();
  await lab.stop();
}
