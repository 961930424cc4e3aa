import { expect, test } from "vitest";
import type { FakeAllocation } from "../support/fake-nomad/model.ts";
import { CREDENTIAL, fakeCluster, RUNTIME } from "./fake-cluster.ts";
import { type Api, apiWith, env, workspace } from "./support.ts";

const SECRET = "agent-key-value-1";
const cluster = fakeCluster();

interface Running {
  api: Api;
  workspaceId: string;
  token: string;
  run: string;
  alloc: FakeAllocation;
  nonce: string;
}

/** A run whose container writes what a test lets it write. */
async function running(): Promise<Running> {
  const { id: workspaceId, api, token } = await workspace();
  expect((await api.call("PUT", "/secrets/NOMAD_TOKEN", CREDENTIAL)).status).toBe(204);
  expect((await api.call("PUT", "/secrets/AGENT_KEY", { value: SECRET })).status).toBe(204);
  expect((await api.call("POST", "/runtimes", RUNTIME)).status).toBe(201);
  const harness = { spec: { kind: "command", command: "x", env: { KEY: { secretRef: "AGENT_KEY" } } } };
  const case_ = { id: "c1", task: "t", graders: [{ kind: "exit-code" }] };
  const { id: run } = (await api.call("POST", "/runs", { harness, case: case_, runtime: "gpu" })).body;
  const find = () => cluster.nomad.cluster.allocations.find(({ jobId }) => jobId.includes(run.slice("run_".length)));
  await expect.poll(() => find()?.clientStatus, { timeout: 15_000 }).toBe("running");
  await expect
    .poll(async () => (await api.call("GET", `/runs/${run}`)).body.status, { timeout: 15_000 })
    .toBe("running");
  const alloc = find();
  const job = alloc && cluster.nomad.cluster.jobs.get(alloc.jobId)?.body;
  const templates = job?.TaskGroups?.[0]?.Tasks?.[0]?.Templates ?? [];
  const holder = templates.find(({ DestPath }) => DestPath === "secrets/nonce")?.EmbeddedTmpl ?? "";
  const nonce = /[0-9a-f]{32}/.exec(atob(/[A-Za-z0-9+/]{40,}=*/.exec(holder)?.[0] ?? ""))?.[0] ?? holder;
  if (!alloc) throw new Error("not placed");
  return { api, workspaceId, token, run, alloc, nonce };
}

interface Event {
  id: string | null;
  event: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever came
  data: any;
}

/** Reads a stream's events until one is the last that is wanted. */
async function* events(token: string, run: string, lastEventId?: string): AsyncGenerator<Event> {
  const headers = {
    authorization: `Bearer ${token}`,
    ...(lastEventId === undefined ? {} : { "last-event-id": lastEventId }),
  };
  const answer = await apiWith({ EVERDICT_ENV: "dev" }).fetch(
    new Request(`http://127.0.0.1:8787/runs/${run}/logs/stream`, { headers }),
  );
  const reader = answer.body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (;;) {
      const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
      if (done) return;
      text += decoder.decode(value, { stream: true });
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const frame = text.slice(0, end);
        text = text.slice(end + 2);
        const field = (name: string) => new RegExp(`^${name}: (.*)$`, "m").exec(frame)?.[1] ?? null;
        const event = field("event");
        if (event !== null) yield { id: field("id"), event, data: JSON.parse(field("data") ?? "null") };
      }
    }
  } finally {
    await reader?.cancel();
  }
}

async function until(stream: AsyncGenerator<Event>, seen: Event[], done: (seen: Event[]) => boolean): Promise<void> {
  while (!done(seen)) {
    const next = await stream.next();
    if (next.done) return;
    seen.push(next.value);
  }
}

const liveText = (seen: readonly Event[]): string =>
  seen
    .filter(({ event, data }) => event === "log" && data.stream === "both")
    .map(({ data }) => data.text)
    .join("");

function endsWith(nonce: string, stdout: string, stderr: string): Record<string, string> {
  const bytes = (text: string) => new TextEncoder().encode(text).length;
  const body = `everdict 1\nexit 0\nms 5\ntimeout 0\nnode +4\nbox1\nout ${bytes(stdout)} +${bytes(stdout)}\n${stdout}\nerr ${bytes(stderr)} +${bytes(stderr)}\n${stderr}\n`;
  return { "/alloc/data/outcome": `__EVERDICT_RESULT__ ${nonce} ${btoa(body)}\n` };
}

test("a cluster's log streams while it runs, masked over the edges of its pieces, and resumes without a gap", async () => {
  const { token, run, alloc, nonce, workspaceId, api } = await running();
  const stream = events(token, run);
  const seen: Event[] = [];
  alloc.stdout += "one\n";
  await until(stream, seen, () => liveText(seen).includes("one"));
  // Half of a value now, the other half a step later.
  alloc.stdout += `key ${SECRET.slice(0, 9)}`;
  await new Promise((resolve) => setTimeout(resolve, 2_500));
  alloc.stdout += `${SECRET.slice(9)} and ${btoa(SECRET)}\n`;
  alloc.stderr += "to stderr\n";
  await until(stream, seen, () => liveText(seen).includes("to stderr"));
  expect(liveText(seen)).toMatch(/^one\nkey \*\*\* and \*\*\*.{0,2}=*\nto stderr\n$/);
  const lastId = seen.filter(({ id }) => id !== null).at(-1)?.id ?? "";
  await stream.return(undefined);

  alloc.stdout += "while nobody watched\n";
  const again = events(token, run, lastId);
  const more: Event[] = [];
  await until(again, more, () => liveText(more).includes("nobody"));
  expect(liveText(more)).toBe("while nobody watched\n");

  // The last words come with the end: nobody may take a step between.
  const stdout = `${alloc.stdout}the last word`;
  cluster.nomad.cluster.endTask(alloc, {
    exitCode: 0,
    stdout: `the last word\n__EVERDICT_RESULT__ ${nonce} abc=\n`,
    files: endsWith(nonce, stdout, alloc.stderr),
  });
  await until(again, more, () => more.at(-1)?.event === "end");
  expect(liveText(more)).toBe("while nobody watched\nthe last word\n");
  const apart = more.filter(({ event, data }) => event === "log" && data.stream !== "both");
  expect(apart.map(({ data }) => [data.stream, data.replay])).toEqual([
    ["stdout", true],
    ["stderr", true],
  ]);
  expect(apart[0]?.data.text).toMatch(/^one\nkey \*\*\*/);
  expect(apart[1]?.data.text).toBe("to stderr\n");
  expect(more.filter(({ event }) => event === "run").at(-1)?.data.status).toBe("succeeded");
  for (const text of [JSON.stringify(seen), JSON.stringify(more)]) expect(text).not.toContain(SECRET);

  const whole = "one\nkey ***";
  expect((await api.call("GET", `/runs/${run}/logs`)).body).toMatch(new RegExp(`^${whole.replaceAll("*", "\\*")}`));
  // Without a bucket the log that was watched to its end is still there.
  const bare = apiWith({ EVERDICT_ENV: "dev", LOGS: undefined }, { authorization: `Bearer ${token}` });
  expect((await bare.call("GET", `/runs/${run}/logs`)).body).toMatch(/^one\nkey \*\*\*.*the last word\n$/s);
  expect((await api.call("GET", `/runs/${run}/logs?stream=stderr`)).body).toBe("to stderr\n");
  const archived = async () => (await (await env.LOGS?.get(`logs/${workspaceId}/${run}/1.txt`))?.text()) ?? "";
  await expect.poll(archived, { timeout: 10_000 }).toContain("the last word\n");
  const text = await archived();
  expect(text).not.toContain(SECRET);
  expect(text).not.toContain("EVERDICT_RESULT");
});

test("many watch one log: one of them asks the cluster, and all read the same", async () => {
  const { token, run, alloc } = await running();
  const watchers = Array.from({ length: 8 }, () => ({ stream: events(token, run), seen: [] as Event[] }));
  const before = cluster.nomad.requests.length;
  const began = Date.now();
  for (const word of ["one", "two", "three"]) {
    alloc.stdout += `${word}\n`;
    await Promise.all(watchers.map(({ stream, seen }) => until(stream, seen, () => liveText(seen).includes(word))));
  }
  const reads = cluster.nomad.requests
    .slice(before)
    .filter((line) => line.includes("/fs/logs/") && line.includes("type=stdout"));
  // About one a second, whatever the number of those who watch.
  expect(reads.length).toBeLessThanOrEqual(2 * Math.ceil((Date.now() - began) / 1_000) + 2);
  for (const { seen } of watchers) expect(liveText(seen)).toBe("one\ntwo\nthree\n");
  cluster.nomad.cluster.endTask(alloc, { exitCode: 3 });
  for (const { stream, seen } of watchers) await until(stream, seen, () => seen.at(-1)?.event === "end");
});

test("a log that nobody watched is in the bucket whole, and what a tail cuts of a value is masked", async () => {
  const { api, run, alloc, nonce, workspaceId } = await running();
  alloc.stdout += `${"x".repeat(100_000)}\n${SECRET}\nend\n`;
  const live = (await api.call("GET", `/runs/${run}/logs?tailBytes=${SECRET.length}`)).body;
  expect(live).toBe("***\nend\n");
  cluster.nomad.cluster.endTask(alloc, { exitCode: 0, files: endsWith(nonce, "short", "") });
  await expect
    .poll(async () => (await api.call("GET", `/runs/${run}`)).body.status, { timeout: 30_000 })
    .toBe("succeeded");
  await expect
    .poll(async () => (await env.LOGS?.head(`logs/${workspaceId}/${run}/1.txt`))?.size, { timeout: 10_000 })
    .toBe(100_001 + "***\nend\n".length);
  expect((await api.call("GET", `/runs/${run}/logs?tailBytes=8`)).body).toBe("***\nend\n");
  expect((await api.call("GET", `/runs/${run}/logs?stream=stdout`)).body).toBe("short");
});

test("a cluster that does not answer stops the log, not the stream", async () => {
  const { token, run, alloc } = await running();
  const stream = events(token, run);
  const seen: Event[] = [];
  alloc.stdout += "before\n";
  await until(stream, seen, () => liveText(seen).includes("before"));
  cluster.nomad.faults.plan(/fs\/logs/, { kind: "drop" }, 2);
  alloc.stdout += "after\n";
  await until(stream, seen, () => liveText(seen).includes("after"));
  expect(liveText(seen)).toBe("before\nafter\n");
  cluster.nomad.cluster.endTask(alloc, { exitCode: 1 });
  await until(stream, seen, () => seen.at(-1)?.event === "end");
});
