import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { lost, missed, progress, run, SCORECARD_ID, scorecard } from "./answers.ts";
import { events, everdict, FakeApi, json } from "./fake-api.ts";

let api: FakeApi;
beforeEach(async () => {
  api = await new FakeApi().start();
});
afterEach(() => api.stop());

const START = ["scorecard", "smoke", "--harness", "echo"];

function ends(card: ReturnType<typeof scorecard>, runs: unknown[] = []): void {
  api
    .on("POST /scorecards", json(202, scorecard({ status: "queued", summary: null, finishedAt: null })))
    .on(
      `GET /scorecards/${SCORECARD_ID}/stream`,
      events([
        { id: "1", event: "progress", data: progress({ succeeded: 1, running: 2 }) },
        { id: "2", event: "run", data: { id: "run_1", caseId: "c1", status: "succeeded", score: 1 } },
      ]),
      events([
        { id: "3", event: "progress", data: card.progress },
        { id: "4", event: "end", data: card },
      ]),
    )
    .on(`GET /scorecards/${SCORECARD_ID}/runs`, json(200, { items: runs, nextCursor: null }));
}

const summaryOf = (over: object) => {
  const { summary } = scorecard();
  if (!summary) throw new Error("no summary");
  return { ...summary, ...over };
};

describe("everdict scorecard", () => {
  it("starts, follows over a cut, prints the result with its interval, and exits 0 when all passed", async () => {
    ends(scorecard());
    const args = ["--runtime", "gpu,pool", "--runtime", "self", "--trials", "3", "--tag", "fast", "--limit", "10"];
    const { code, out, err } = await everdict([...START, ...args, "--api-url", api.url]);
    expect(code).toBe(0);
    expect(out).toContain("pass rate   100.0 % (95 % interval 44.0 % to 100.0 %)");
    expect(out).toContain("duration    p50 400 ms, p95 900 ms");
    expect(err).toContain("1/3, 2 running, 0 queued\n");
    expect(err).not.toContain("\u001b");
    expect(api.seen[0]?.body).toEqual({
      dataset: { id: "smoke", version: "latest" },
      harness: { id: "echo", version: "latest" },
      runtime: ["gpu", "pool", "self"],
      trials: 3,
      cases: { tags: ["fast"], limit: 10 },
    });
    expect(api.seen[2]?.headers["last-event-id"]).toBe("2");
  });

  it("draws one line on a terminal", async () => {
    ends(scorecard());
    const { err } = await everdict([...START, "--api-url", api.url], { terminal: true });
    expect(err).toContain("\r[████████░░░░░░░░░░░░░░░░] 1/3, 2 running, 0 queued\u001b[K");
    expect(err.endsWith("\n")).toBe(true);
  });

  it("exits 1 when a grade failed, and names the case with its reason", async () => {
    ends(scorecard({ summary: summaryOf({ passRate: 2 / 3 }) }), [
      run({ status: "succeeded", caseId: "c1", result: missed }),
    ]);
    const { code, out } = await everdict([...START, "--api-url", api.url]);
    expect(code).toBe(1);
    expect(out).toMatch(/c1 +1 +not passed +0\.0 % +exit-code: expected exit status 0, found 1/);
  });

  it("exits 2 when some were not measured, even though grades failed too", async () => {
    ends(
      scorecard({
        progress: progress({ succeeded: 2, failed: 1 }),
        summary: summaryOf({
          passRate: 0.5,
          measured: 2,
          failedByClass: { infra: 1, config: 0, harness: 0, agent: 0 },
        }),
      }),
      [lost],
    );
    const { code, out } = await everdict([...START, "--api-url", api.url]);
    expect(code).toBe(2);
    expect(out).toContain("failed      1 infra");
    expect(out).toMatch(/c2 +1 +failed +– +NODE_LOST: the node went away/);
  });

  it("prints the API's JSON and nothing else with --json", async () => {
    const card = scorecard();
    ends(card);
    const { out, err } = await everdict([...START, "--json", "--api-url", api.url]);
    expect(JSON.parse(out)).toEqual(card);
    expect(err).toBe("");
  });

  it("refuses what the API would refuse, naming the field", async () => {
    const { code, err } = await everdict([...START, "--concurrency", "9999", "--api-url", api.url]);
    expect(code).toBe(2);
    expect(err).toContain("  concurrency: ");
    expect((await everdict(["scorecard", "--harness", "echo"])).err).toContain("name a dataset and a --harness");
  });

  it("lists, compares, cancels and retries, with the options of each command", async () => {
    const running = scorecard({ status: "running", summary: null, finishedAt: null });
    api
      .on("GET /scorecards", json(200, { items: [scorecard(), running], nextCursor: "abc" }))
      .on(
        "GET /scorecards/compare",
        json(200, {
          a: scorecard(),
          b: scorecard(),
          passRateDifference: -0.25,
          improved: 0,
          regressed: 1,
          unchanged: 2,
          cases: [
            {
              caseId: "c1",
              a: { score: 1, pass: true, status: "succeeded", runs: 1 },
              b: { score: 0.5, pass: false, status: "succeeded", runs: 1 },
              difference: -0.5,
            },
          ],
        }),
      )
      .on(`POST /scorecards/${SCORECARD_ID}/cancel`, json(202, running))
      .on(`POST /scorecards/${SCORECARD_ID}/retry`, json(202, running));
    const list = await everdict(["scorecard", "list", "--limit", "2", "--api-url", api.url]);
    expect(list.out).toContain("100.0 %");
    expect(list.out).toContain("more: --cursor abc");
    expect(api.seen.at(-1)?.query.get("limit")).toBe("2");
    const listed = await everdict(["scorecard", "list", "--json", "--api-url", api.url]);
    expect(JSON.parse(listed.out)).toMatchObject({ nextCursor: "abc" });
    const compare = await everdict(["scorecard", "compare", SCORECARD_ID, SCORECARD_ID, "--api-url", api.url]);
    expect(compare.code).toBe(1);
    expect(compare.out).toMatch(/c1 +100\.0 % +50\.0 % +-50\.0 %/);
    expect((await everdict(["scorecard", "cancel", SCORECARD_ID, "--api-url", api.url])).code).toBe(0);
    const retry = ["scorecard", "retry", SCORECARD_ID, "--class", "infra", "--no-follow", "--api-url", api.url];
    expect((await everdict(retry)).code).toBe(0);
    expect(api.seen.at(-1)?.query.toString()).toBe("class=infra");
  });
});
