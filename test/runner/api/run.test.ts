import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { missed, RUN_ID, result, run } from "./answers.ts";
import { events, everdict, FakeApi, json, problem } from "./fake-api.ts";

let api: FakeApi;
beforeEach(async () => {
  api = await new FakeApi().start();
});
afterEach(() => api.stop());

const STREAM = `GET /runs/${RUN_ID}/logs/stream`;
const ended = run({ status: "succeeded", result: result(), finishedAt: "2026-11-30T08:00:01.000Z" });
const inline = ["run", "--command", "echo hi"];

describe("everdict run", () => {
  it("submits an inline case, shows output and status as they come, and exits 0 when it passed", async () => {
    const waiting = { position: 2, reason: "slots", detail: "4 of 4 slots are taken", etaSec: 9 };
    api.on("POST /runs", json(202, run())).on(
      STREAM,
      events([
        { event: "run", data: run({ waiting: waiting as never }) },
        { id: "1", event: "log", data: { epoch: 1, stream: "stdout", offset: 0, text: "hello\n" } },
        { id: "2", event: "log", data: { epoch: 1, stream: "stderr", offset: 0, text: "careful\n" } },
        { event: "run", data: ended },
        { event: "end", data: {} },
      ]),
    );
    const args = [...inline, "--task", "say hi", "--image", "busybox:1.36", "--expected", "hello", "--timeout", "9"];
    const { code, out, err } = await everdict([...args, "--runtime", "gpu", "--retries", "2", "--api-url", api.url]);
    expect(code).toBe(0);
    expect(out).toContain("hello\n");
    expect(out).not.toContain("careful");
    expect(out).toContain("passed: score 100.0 %");
    expect(err).toContain("careful\n");
    expect(err).toContain("queued: slots, 4 of 4 slots are taken (about 9 s)");
    expect(api.seen[0]?.body).toEqual({
      harness: { spec: { kind: "command", command: "echo hi" } },
      case: {
        id: "cli",
        task: "say hi",
        image: "busybox:1.36",
        timeoutSec: 9,
        expected: "hello",
        graders: [
          { kind: "exit-code", equals: 0, weight: 1 },
          { kind: "contains", in: "stdout", weight: 1 },
        ],
      },
      runtime: "gpu",
      retries: 2,
    });
  });

  it("goes on after a cut stream from the last event it saw", async () => {
    api.on("POST /runs", json(202, run())).on(
      STREAM,
      events([{ id: "7", event: "log", data: { epoch: 1, stream: "stdout", offset: 0, text: "one " } }]),
      problem(503, "UNAVAILABLE", "restarting"),
      events([
        { id: "8", event: "log", data: { epoch: 1, stream: "stdout", offset: 4, text: "two\n" } },
        { event: "run", data: ended },
        { event: "end", data: {} },
      ]),
    );
    const { code, out } = await everdict([...inline, "--api-url", api.url]);
    expect(code).toBe(0);
    expect(out).toContain("one two\n");
    expect(api.seen.slice(1).map((seen) => seen.headers["last-event-id"])).toEqual([undefined, "7", "7"]);
  });

  it("exits 1 when it was measured and not passed, and 2 when it was not measured", async () => {
    const end = { event: "end", data: {} };
    api.on("POST /runs", json(202, run()));
    api.on(STREAM, events([{ event: "run", data: run({ status: "succeeded", result: missed }) }, end]));
    const failed = await everdict([...inline, "--api-url", api.url]);
    expect(failed.code).toBe(1);
    expect(failed.out).toContain("✗ exit-code: expected exit status 0, found 1");
    api.on(STREAM, events([end]));
    api.on(
      `GET /runs/${RUN_ID}`,
      json(
        200,
        run({
          status: "failed",
          failure: {
            stage: "run",
            class: "config",
            code: "OOM_KILLED",
            message: "raise resources.memoryMb",
            retryable: false,
          },
        }),
      ),
    );
    const broken = await everdict([...inline, "--api-url", api.url]);
    expect(broken.code).toBe(2);
    expect(broken.out).toContain("OOM_KILLED (run, config)\n  raise resources.memoryMb");
  });

  it("takes a case from a file, under what the command line says", async () => {
    api.on("POST /runs", json(202, run()));
    const files = { "case.json": JSON.stringify({ id: "c9", task: "from the file", image: "alpine:3" }) };
    const args = ["run", "case.json", "--harness", "echo@2.0.0", "--image", "busybox:1.36", "--no-follow", "--json"];
    const { code, out } = await everdict([...args, "--api-url", api.url], { files });
    expect(code).toBe(0);
    expect(JSON.parse(out)).toEqual(run());
    expect(api.seen[0]?.body).toMatchObject({
      harness: { id: "echo", version: "2.0.0" },
      case: { id: "c9", task: "from the file", image: "busybox:1.36" },
    });
  });

  it("prints one JSON document and nothing else with --json", async () => {
    api.on("POST /runs", json(202, run()));
    api.on(
      STREAM,
      events([
        { id: "1", event: "log", data: { epoch: 1, stream: "stdout", offset: 0, text: "noise" } },
        { event: "run", data: ended },
        { event: "end", data: {} },
      ]),
    );
    const { out, err } = await everdict([...inline, "--json", "--api-url", api.url]);
    expect(JSON.parse(out)).toEqual(ended);
    expect(err).toBe("");
  });

  it.each([
    [["run", "--task", "x"], "name a --harness"],
    [["run", "--harness", "a", "--command", "b"], "exclude each other"],
    [["run", "--harness", "a"], "give a case file"],
    [["run", "missing.json", "--harness", "a"], "cannot read missing.json"],
    [["run", "--command", "x", "--retries", "many"], "--retries must be a whole number"],
    [["run", "--comand", "x"], "unknown option '--comand'"],
  ])("exits 2 and says what to change: %j", async (args, words) => {
    const { code, err } = await everdict(args);
    expect(code).toBe(2);
    expect(err).toContain(words);
  });

  it("names every field of a case that is not valid, before anything is sent", async () => {
    const files = { "case.json": JSON.stringify({ id: "c", task: "t", timeoutSec: 0, graders: [{ kind: "exit" }] }) };
    const { code, err } = await everdict(["run", "case.json", "--harness", "a", "--api-url", api.url], { files });
    expect(code).toBe(2);
    expect(err).toContain("  timeoutSec: ");
    expect(err).toContain("  graders.0.kind: ");
    expect(api.seen).toEqual([]);
  });
});

describe("everdict logs", () => {
  it("prints the output as it stands, and as it comes with -f", async () => {
    api.on(`GET /runs/${RUN_ID}/logs`, (_seen, response) => response.end("all of it\n"));
    const still = await everdict(["logs", RUN_ID, "--stream", "stdout", "--tail-bytes", "10", "--api-url", api.url]);
    expect(still).toMatchObject({ code: 0, out: "all of it\n" });
    expect(api.seen[0]?.query.toString()).toBe("stream=stdout&tailBytes=10");
    api.on(
      STREAM,
      events([
        { id: "1", event: "log", data: { epoch: 1, stream: "stdout", offset: 0, text: "live\n" } },
        { event: "run", data: ended },
        { event: "end", data: {} },
      ]),
    );
    expect(await everdict(["logs", "-f", RUN_ID, "--api-url", api.url])).toMatchObject({ code: 0, out: "live\n" });
  });
});
