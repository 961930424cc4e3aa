import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { everdict, FakeApi, json, problem } from "./fake-api.ts";

let api: FakeApi;
let home: string;
beforeEach(async () => {
  api = await new FakeApi().start();
  home = mkdtempSync(join(tmpdir(), "everdict-cli-"));
});
afterEach(async () => {
  await api.stop();
  rmSync(home, { recursive: true });
});

const ME = {
  subject: "ada",
  workspace: "acme",
  role: "admin",
  scope: "admin",
  operator: false,
  personal: true,
  workspaces: [],
};
const registered = { id: "x", version: "1.0.0", owner: "acme", createdAt: "t", createdBy: "ada", warnings: ["odd"] };

describe("errors", () => {
  it("are told with title, detail, every issue and the request id", async () => {
    const issues = [{ path: "case.timeoutSec", message: "must be above 0" }];
    api.on("GET /queue", problem(400, "BAD_REQUEST", "the request is not valid\u001b[2J", { issues }));
    const { code, err, out } = await everdict(["queue", "--api-url", api.url]);
    expect(code).toBe(2);
    expect(out).toBe("");
    expect(err).toBe(
      "error: Bad request: the request is not valid [2J\n  case.timeoutSec: must be above 0\n  request req_1\n",
    );
  });

  it.each([
    [401, "UNAUTHENTICATED", 3],
    [402, "BUDGET_EXCEEDED", 1],
    [403, "FORBIDDEN", 3],
    [404, "NOT_FOUND", 4],
    [409, "CONFLICT", 5],
    [429, "RATE_LIMITED", 7],
    [503, "UNAVAILABLE", 7],
    [500, "INTERNAL", 1],
  ])("HTTP %i %s exits with %i", async (status, code, exit) => {
    api.on("GET /queue", problem(status, code, "no"));
    expect((await everdict(["queue", "--api-url", api.url])).code).toBe(exit);
  });

  it("say so when nothing answers, and exit with 7", async () => {
    const { url } = api;
    await api.stop();
    const { code, err } = await everdict(["queue", "--api-url", url]);
    api = await new FakeApi().start();
    expect(code).toBe(7);
    expect(err).toContain(`cannot reach the control plane at ${url}`);
  });

  it("are the problem document with --json", async () => {
    api.on("GET /queue", problem(404, "NOT_FOUND", "no"));
    const { err } = await everdict(["queue", "--json", "--api-url", api.url]);
    expect(JSON.parse(err)).toMatchObject({ code: "NOT_FOUND", status: 404, instance: "req_1" });
  });
});

describe("login", () => {
  const config = () => join(home, "everdict", "login.json");

  it("stores a key that works, for its user only, and the other commands use it at that address alone", async () => {
    api.on("GET /me", json(200, ME)).on("GET /queue", json(200, { lanes: [], entries: [], nextCursor: null }));
    const env = { XDG_CONFIG_HOME: home };
    const { code, err } = await everdict(["login", "--api-url", api.url], { env, typed: "ak_secret" });
    expect(code).toBe(0);
    expect(err).not.toContain("ak_secret");
    expect(statSync(config()).mode & 0o777).toBe(0o600);
    await everdict(["queue"], { env });
    expect(api.seen.at(-1)?.headers.authorization).toBe("Bearer ak_secret");
    const other = await new FakeApi().start();
    other.on("GET /queue", json(200, { lanes: [], entries: [], nextCursor: null }));
    await everdict(["queue", "--api-url", other.url], { env });
    await other.stop();
    expect(other.seen[0]?.headers.authorization).toBeUndefined();
  });

  it("stores nothing when the key is refused", async () => {
    api.on("GET /me", problem(401, "UNAUTHENTICATED", "unknown key"));
    const world = { env: { XDG_CONFIG_HOME: home }, files: { "-": "ak_wrong\n" } };
    expect((await everdict(["login", "--api-url", api.url], world)).code).toBe(3);
    expect(() => readFileSync(config())).toThrow();
  });

  it("lets flags win over the environment, and sends the workspace", async () => {
    api.on("GET /queue", json(200, { lanes: [], entries: [], nextCursor: null }));
    const env = { EVERDICT_API_URL: api.url, EVERDICT_API_KEY: "ak_env", EVERDICT_WORKSPACE: "acme" };
    await everdict(["queue", "--workspace", "beta", "--api-key", "ak_flag"], { env });
    await everdict(["queue"], { env });
    expect(api.seen.map(({ headers }) => [headers.authorization, headers["x-everdict-workspace"]])).toEqual([
      ["Bearer ak_flag", "beta"],
      ["Bearer ak_env", "acme"],
    ]);
  });
});

describe("secrets", () => {
  it("takes the value from standard input or a prompt and never shows it", async () => {
    api.on("PUT /secrets/KEY", json(204, undefined));
    const piped = await everdict(["secrets", "set", "KEY", "--api-url", api.url], { files: { "-": "line\nvalue\n" } });
    const args = ["secrets", "set", "KEY", "--use", "cluster", "--host", "a.dev", "--host", "*.b.dev"];
    const typed = await everdict([...args, "--api-url", api.url], { typed: "typed value" });
    expect(api.seen.map((seen) => seen.body)).toEqual([
      { value: "line\nvalue", use: "job" },
      { value: "typed value", use: "cluster", hosts: ["a.dev", "*.b.dev"] },
    ]);
    for (const { code, out, err } of [piped, typed]) {
      expect(code).toBe(0);
      expect(out + err).not.toContain("value\n");
    }
  });

  it("takes no value from the arguments, where every user of the machine could read it", async () => {
    const { code } = await everdict(["secrets", "set", "KEY", "value", "--api-url", api.url], { files: { "-": "x" } });
    expect(code).toBe(2);
    expect(api.seen).toEqual([]);
  });

  it("lists names and deletes", async () => {
    api
      .on("GET /secrets/names", json(200, { items: [{ name: "KEY", use: "job" }], nextCursor: null }))
      .on("DELETE /secrets/KEY", json(204, undefined));
    expect((await everdict(["secrets", "list", "--api-url", api.url])).out).toMatch(/KEY +job/);
    expect((await everdict(["secrets", "delete", "KEY", "--api-url", api.url])).code).toBe(0);
  });
});

describe("datasets", () => {
  const one = { id: "c1", task: "t" };
  const two = { id: "c2", task: "u" };

  it.each([
    ["a whole dataset", JSON.stringify({ id: "old", version: "1.0.0", cases: [one, two] }), ["--id", "smoke"]],
    ["a list of cases", JSON.stringify([one, two]), ["--id", "smoke", "--version", "1.0.0"]],
    ["a case a line", `${JSON.stringify(one)}\n\n${JSON.stringify(two)}\n`, ["--id", "smoke", "--version", "1.0.0"]],
  ])("are created from %s", async (_what, text, args) => {
    api.on("POST /datasets", json(201, registered));
    const world = { files: { "d.json": text } };
    const { code, out } = await everdict(["datasets", "create", "d.json", ...args, "--api-url", api.url], world);
    expect(code).toBe(0);
    expect(out).toBe("registered x@1.0.0\n  warning: odd\n");
    expect(api.seen[0]?.body).toEqual({ id: "smoke", version: "1.0.0", cases: [one, two] });
  });

  it("name the line that is not JSON", async () => {
    const world = { files: { "d.jsonl": `${JSON.stringify(one)}\n{oops\n` } };
    const { code, err } = await everdict(["datasets", "create", "d.jsonl", "--api-url", api.url], world);
    expect(code).toBe(2);
    expect(err).toContain("line 2 is not JSON");
  });

  it("are validated by the API, which says all that is wrong", async () => {
    const errors = [{ path: "cases.0.id", message: "missing" }];
    const answer = {
      ok: false,
      errors,
      warnings: [],
      existingVersions: [],
      versionExists: false,
      missingSecrets: ["K"],
    };
    api.on("POST /datasets/validate", json(200, answer));
    const world = { files: { "-": "[{}]" } };
    const { code, out } = await everdict(["datasets", "validate", "-", "--api-url", api.url], world);
    expect(code).toBe(1);
    expect(out).toBe("not valid\n  cases.0.id: missing\n  secret K is not stored yet\n");
  });
});

describe("runtimes, runners and the queue", () => {
  const nomad = { kind: "nomad", id: "gpu", version: "1.0.0", addr: "https://nomad.acme.dev", image: "busybox:1.36" };

  it("registers a runtime as it was written, and reads it back", async () => {
    api
      .on("POST /runtimes", json(201, registered))
      .on("GET /runtimes/gpu/versions/latest", json(200, { ...registered, archived: false, tags: [], spec: nomad }));
    const world = { files: { "r.json": JSON.stringify(nomad) } };
    expect((await everdict(["runtimes", "create", "r.json", "--api-url", api.url], world)).code).toBe(0);
    expect(api.seen[0]?.body).toEqual(nomad);
    const { out } = await everdict(["runtimes", "get", "gpu", "--api-url", api.url]);
    expect(JSON.parse(out)).toEqual(nomad);
  });

  it("exits 1 when a probed cluster does not answer, with each check's fix", async () => {
    const checks = [{ name: "auth", ok: false, detail: "403", fix: "store NOMAD_TOKEN" }];
    const answer = { kind: "nomad", reachable: false, detail: "refused", reason: "auth", checks, receipt: null };
    api.on("POST /runtimes/probe", json(200, answer));
    const world = { files: { "r.json": JSON.stringify(nomad) } };
    const { code, out } = await everdict(["runtimes", "probe", "r.json", "--api-url", api.url], world);
    expect(code).toBe(1);
    expect(out).toBe("not reachable: refused\n  ✗ auth: 403; store NOMAD_TOKEN\n");
  });

  it("pairs own and shared machines and shows the command once", async () => {
    const paired = { id: "rnr-1", label: "laptop", token: "rnr_x", command: "npx everdict runner --pair rnr_x" };
    api.on("POST /runners", json(201, paired)).on("POST /workspace/runners", json(201, paired));
    const { out } = await everdict(["runners", "pair", "laptop", "--api-url", api.url]);
    expect(out).toContain("npx everdict runner --pair rnr_x");
    await everdict(["runners", "pair", "ci", "--shared", "--api-url", api.url]);
    expect(api.seen.map((seen) => [seen.path, seen.body])).toEqual([
      ["/runners", { label: "laptop" }],
      ["/workspace/runners", { label: "ci" }],
    ]);
  });

  it("shows the queue's lanes and why each entry waits", async () => {
    const waiting = { position: 1, reason: "memory", detail: "61000/65536 MB in use", etaSec: 120 };
    api.on(
      "GET /queue",
      json(200, {
        lanes: [
          {
            lane: "rt:acme:gpu@1.0.0",
            target: "gpu",
            slots: { total: 20, inFlight: 20 },
            memoryMb: null,
            cpu: null,
            queued: 1,
            oldestSec: 42,
            health: { state: "ok", detail: null },
            drift: 0,
          },
        ],
        entries: [{ runId: "run_1", target: "gpu", position: 1, enqueuedAt: "t", waiting }],
        nextCursor: null,
      }),
    );
    const { out } = await everdict(["queue", "--target", "gpu", "--api-url", api.url]);
    expect(out).toMatch(/gpu +20\/20 +– +1 +42\.0 s +ok/);
    expect(out).toMatch(/1 +run_1 +gpu +memory +2m 0s +61000\/65536 MB in use/);
    expect(api.seen[0]?.query.get("target")).toBe("gpu");
  });

  it("lets no text of the API move the terminal's cursor", async () => {
    const item = {
      id: "rnr-1",
      label: "evil\u001b[2J\nname",
      owner: "ada",
      online: true,
      os: "linux",
      arch: "x64",
      capabilities: ["git"],
      slots: { total: 4, free: 3 },
      running: [],
    };
    api.on("GET /runners", json(200, { items: [item], nextCursor: null }));
    const { out } = await everdict(["runners", "list", "--api-url", api.url]);
    expect(out).toContain("evil [2J name");
    expect(out.split("\n")).toHaveLength(3);
  });
});
