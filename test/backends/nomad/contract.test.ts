import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import * as z from "zod";
import {
  Allocations,
  Evaluations,
  FileStat,
  HostStats,
  JobStatuses,
  JobStubs,
  Members,
  NodeRows,
  Plan,
  RegisteredJob,
  TokenSelf,
  Variables,
} from "../../../worker/backends/nomad/shapes.ts";
import { FakeNomad, LEAST_RIGHTS } from "../../support/fake-nomad/fake-nomad.ts";

/*
 * The fake against what real servers answered: for each recorded request the same status, the same words where the
 * answer is text, and for JSON the fields that the backend reads, of the same type.
 */

interface Recording {
  fact: string;
  label: string;
  version: string;
  request: { method: string; path: string; token?: string | null; body?: unknown };
  response: { status: number; json: boolean; body: unknown };
}

const recordings: Recording[] = JSON.parse(
  readFileSync(join(import.meta.dirname, "../../support/fake-nomad/recordings.json"), "utf8"),
);

const SECRETS: Record<string, string> = {
  "least-privilege": "11111111-2222-4333-8444-555555555555",
  management: "99999999-2222-4333-8444-555555555555",
  unknown: "00000000-2222-4333-8444-555555555555",
  other: "00000000-2222-4333-8444-555555555555",
  malformed: "not-a-token",
};

/** What the backend reads of an answer, by path. */
const SHAPES: [RegExp, z.ZodType][] = [
  [/^GET \/v1\/job\/[^/]+\/allocations/, Allocations],
  [/^GET \/v1\/job\/[^/]+$/, RegisteredJob],
  [/^POST \/v1\/job\/[^/]+\/plan/, Plan],
  [/^GET \/v1\/jobs$/, JobStubs],
  [/^POST \/v1\/jobs\/statuses/, JobStatuses],
  [/^GET \/v1\/evaluations/, Evaluations],
  [/^GET \/v1\/vars/, Variables],
  [/^GET \/v1\/acl\/token\/self/, TokenSelf],
  [/^GET \/v1\/agent\/members/, Members],
  [/fs\/stat/, FileStat],
  [/^GET \/v1\/nodes/, NodeRows],
  [/^GET \/v1\/client\/stats/, HostStats],
];

const BUSYBOX = (ID: string, memory = 32) => ({
  ID,
  Namespace: "evd",
  TaskGroups: [
    {
      Name: "main",
      EphemeralDisk: { SizeMB: 110 },
      Tasks: [
        {
          Name: "main",
          Driver: "docker",
          Config: { image: "x:1" },
          Resources: { CPU: 50, MemoryMB: memory },
          LogConfig: { MaxFiles: 1, MaxFileSizeMB: 10 },
        },
      ],
    },
  ],
});

const ask = (nomad: FakeNomad, method: string, path: string, body?: unknown) =>
  nomad.handle(method, path, SECRETS.management, body === undefined ? undefined : JSON.stringify(body));

/** A job that ran; its only allocation gets the id that the recorded path names. */
async function ran(nomad: FakeNomad, path: string, exitCode = 0, id = "t"): Promise<void> {
  await ask(nomad, "POST", "/v1/jobs?namespace=evd", { Job: BUSYBOX(id) });
  const alloc = nomad.cluster.allocations.at(-1);
  if (!alloc) throw new Error("not placed");
  alloc.id = /fs\/\w+\/([^?]+)/.exec(path)?.[1] ?? alloc.id;
  nomad.cluster.endTask(alloc, { exitCode });
}

type Setup = (nomad: FakeNomad, recording: Recording) => Promise<unknown>;
const first =
  (ID: string): Setup =>
  (nomad) =>
    ask(nomad, "POST", "/v1/jobs?namespace=evd", { Job: BUSYBOX(ID) });
const variable: Setup = (nomad) =>
  ask(nomad, "PUT", "/v1/var/nomad/jobs/t7-a?namespace=evd", { Items: { KEY: "s3cr3t", MULTI: "a" } });
const registeredThenDead: Setup = async (nomad, { request, label }) => {
  const { Job } = JSON.parse(JSON.stringify(request.body));
  await ask(nomad, "POST", "/v1/jobs?namespace=evd", { Job: BUSYBOX(Job.ID) });
  if (/STOPPED/.test(label)) await ask(nomad, "DELETE", `/v1/job/${Job.ID}?namespace=evd`);
  for (const alloc of nomad.cluster.of(Job.ID)) nomad.cluster.endTask(alloc, { exitCode: 0 });
};

/** The only node has the id that the recorded path names. */
const sameNode: Setup = async (nomad, { request }) => {
  const [node] = nomad.cluster.nodes.values();
  if (node) node.id = /[0-9a-f]{8}-[0-9a-f-]{27}/.exec(request.path)?.[0] ?? node.id;
};

/** What the world was like before a recorded request. */
const BEFORE: Record<string, Setup> = {
  "second register, same body, EnforceIndex 0": first("t2-a"),
  "read it back": first("t2-a"),
  "wrong JobModifyIndex": async (nomad) => {
    nomad.cluster.index = 17;
    await first("t2-a")(nomad, recordings[0] as Recording);
  },
  "write with cas=0 when it exists (create only)": variable,
  "list (no values)": variable,
  delete: variable,
  "unknown task": (nomad, { request }) => ran(nomad, request.path),
  "no task": (nomad, { request }) => ran(nomad, request.path),
  "bad type": (nomad, { request }) => ran(nomad, request.path),
  "task that never started": async (nomad, { request }) => {
    nomad.cluster.registry = () => "no such host";
    await ask(nomad, "POST", "/v1/jobs?namespace=evd", { Job: BUSYBOX("t") });
    const alloc = nomad.cluster.allocations.at(-1);
    if (alloc) alloc.id = /logs\/([^?]+)/.exec(request.path)?.[1] ?? "";
  },
  "fs cat outside": (nomad, { request }) => ran(nomad, request.path),
  "fs/cat of a file that is not there": (nomad, { request }) => ran(nomad, request.path),
  "fs/stat of a file that is not there": (nomad, { request }) => ran(nomad, request.path),
  "logs while the client agent is down": async (nomad, { request }) => {
    await ran(nomad, request.path);
    nomad.cluster.loseNode("cli1");
  },
  "EnforceIndex 0 on a job that is dead (completed)": registeredThenDead,
  "EnforceIndex 0 on a STOPPED job (deregistered, not purged)": registeredThenDead,
  "jobs/statuses POST with a list of ids": async (nomad) => {
    await ran(nomad, "", 0, "t4-1");
    await first("t4-long")(nomad, recordings[0] as Recording);
  },
  "exit 0: allocations": (nomad, { request }) => ran(nomad, "", 0, request.path.split("/")[3]?.split("?")[0]),
  "the blocked evaluation": (nomad) =>
    ask(nomad, "POST", "/v1/jobs?namespace=evd", {
      Job: {
        ...BUSYBOX("t5-con"),
        Constraints: [{ LTarget: "${attr.kernel.name}", RTarget: "windows", Operand: "=" }],
      },
    }),
  "what a client measures of its machine": sameNode,
  "set ineligible": sameNode,
  "memory exhausted": (nomad) => ask(nomad, "POST", "/v1/jobs?namespace=evd", { Job: BUSYBOX("t5-mem", 900_000) }),
};

/** Paths of the recorded server, ids and RPC positions differ. */
const sameWords = (words: string): string =>
  words
    .replace(/\/var\/lib\/nomad\/\S*?\/alloc\/([0-9a-f-]+)/, "/alloc-of/$1")
    .replace(/\/var\/lib\/nomad\/alloc\/([0-9a-f-]+)/, "/alloc-of/$1")
    .replace(/(failed to read filter expression|index error: Invalid UUID).*/s, "$1")
    .replace(/1 error occurred:\s*\* (.*?)\s*$/s, "1 error occurred: $1")
    .trim();

/** The fields of a body by path, with the type of their values; tags of a server beside its version differ. */
function typesOf(value: unknown): Map<string, string> {
  const out = new Map<string, string>();
  const visit = (item: unknown, at: string): void => {
    if (Array.isArray(item)) for (const one of item) visit(one, `${at}[]`);
    else if (item !== null && typeof item === "object")
      for (const [key, one] of Object.entries(item))
        if (key === "build" || !at.endsWith(".Tags")) visit(one, `${at}.${key}`);
    out.set(at, Array.isArray(item) ? "array" : typeof item);
  };
  visit(value, "");
  return out;
}

describe("the fake answers as a real server did", () => {
  test.each(recordings.map((recording) => [recording.fact, recording.version, recording.label, recording] as const))(
    "%s (%s): %s",
    async (_fact, version, label, recording) => {
      const nomad = new FakeNomad({ version, namespaces: ["default", "evd"] });
      nomad.addToken(SECRETS["least-privilege"] ?? "", [...LEAST_RIGHTS, "variables:read"]);
      nomad.addToken(SECRETS.management ?? "", [], "management");
      await BEFORE[label]?.(nomad, recording);
      const { request, response } = recording;
      const secret = request.token ? SECRETS[request.token] : undefined;
      const body = typeof request.body === "string" ? request.body : JSON.stringify(request.body);
      const answer = await nomad.handle(
        request.method,
        request.path,
        secret,
        request.body === undefined ? undefined : body,
      );
      expect(answer.status).toBe(response.status);
      if (!response.json) {
        const words = typeof response.body === "string" ? sameWords(response.body) : null;
        if (words !== null) expect(typeof answer.body === "string" ? sameWords(answer.body) : answer.body).toBe(words);
        return;
      }
      const line = `${request.method} ${request.path.split("?")[0]}`;
      const shape = SHAPES.find(([pattern]) => pattern.test(line))?.[1] ?? z.unknown();
      const read = typesOf(shape.parse(answer.body));
      const recorded = [...typesOf(shape.parse(response.body))].filter(
        ([path]) => SHAPES.some(([p]) => p.test(line)) || path === "",
      );
      expect(recorded.filter(([path, type]) => read.get(path) !== type)).toEqual([]);
    },
  );
});
