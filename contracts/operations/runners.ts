import * as z from "zod";
import { CapabilityList } from "../capabilities.ts";
import { RunId, RunnerId } from "../names.ts";
import { Timestamp } from "../run.ts";
import {
  HeartbeatAnswer,
  HeartbeatRequest,
  LeaseAnswer,
  LeaseRequest,
  ResultsAnswer,
  ResultsRequest,
} from "../runner-protocol.ts";
import { operation } from "./operation.ts";
import { NoParams, NoQuery, PageQuery, page, queryInt } from "./shapes.ts";

const RunnerParams = z.strictObject({ id: RunnerId });

const RunnerItem = z
  .strictObject({
    id: RunnerId,
    label: z.string(),
    owner: z.string().describe("The person, or the workspace"),
    online: z.boolean(),
    lastSeenAt: Timestamp.nullable(),
    os: z.string().nullable(),
    arch: z.string().nullable(),
    version: z.string().nullable(),
    hostname: z.string().nullable(),
    capabilities: CapabilityList,
    labels: z.array(z.string()),
    slots: z.strictObject({ total: z.number().int(), free: z.number().int() }),
    running: z.array(z.strictObject({ runId: RunId, epoch: z.number().int(), phase: z.string() })),
    createdAt: Timestamp,
  })
  .describe("A paired machine");

const Pair = z.strictObject({
  label: z
    .string()
    .min(1)
    .max(60)
    .regex(/^[^\p{Cc}]+$/u, "must not contain control characters"),
});
const Paired = z.strictObject({
  id: RunnerId,
  label: z.string(),
  token: z.string().nullable().describe("Shown once; null when the request is repeated"),
  command: z.string().describe("What to run on the machine"),
});

const managed = (
  base: "/runners" | "/workspace/runners",
  suffix: "" | "workspace_",
  action: "runners:own" | "runners:workspace",
  whose: string,
) => ({
  list: operation({
    name: `list_${suffix}runners`,
    method: "GET",
    path: base,
    group: "runners",
    summary: `List ${whose}`,
    audience: "user",
    action: "runners:read",
    params: NoParams,
    query: z.strictObject(PageQuery),
    status: 200,
    output: page(RunnerItem),
  }),
  pair: operation({
    name: `pair_${suffix}runner`,
    method: "POST",
    path: base,
    group: "runners",
    summary: `Pair a machine: one of ${whose}`,
    audience: "user",
    action,
    params: NoParams,
    query: NoQuery,
    body: Pair,
    status: 201,
    output: Paired,
    creates: true,
    sensitive: true,
  }),
  revoke: operation({
    name: `revoke_${suffix}runner`,
    method: "DELETE",
    path: `${base}/{id}`,
    group: "runners",
    summary: `Revoke one of ${whose}; its leases end at the next message`,
    audience: "user",
    action,
    params: RunnerParams,
    query: NoQuery,
    status: 204,
    destructive: true,
  }),
});

const own = managed("/runners", "", "runners:own", "your own runners");
const shared = managed("/workspace/runners", "workspace_", "runners:workspace", "the workspace's runners");
const protocol = "the lease protocol is for runners, which hold a runner token";

export const RUNNER_OPERATIONS = {
  list_runners: own.list,
  pair_runner: own.pair,
  revoke_runner: own.revoke,
  list_workspace_runners: shared.list,
  pair_workspace_runner: shared.pair,
  revoke_workspace_runner: shared.revoke,
  runner_lease: operation({
    name: "runner_lease",
    method: "POST",
    path: "/runner/lease",
    group: "lease protocol",
    summary: "Ask for work, parking up to waitMs; 204 when there is none",
    audience: "runner",
    action: "me:read",
    params: NoParams,
    query: NoQuery,
    body: LeaseRequest,
    status: 200,
    output: LeaseAnswer,
    sensitive: true,
    noTool: protocol,
  }),
  runner_heartbeat: operation({
    name: "runner_heartbeat",
    method: "POST",
    path: "/runner/heartbeat",
    group: "lease protocol",
    summary: "Extend the leases of all held attempts",
    audience: "runner",
    action: "me:read",
    params: NoParams,
    query: NoQuery,
    body: HeartbeatRequest,
    status: 200,
    output: HeartbeatAnswer,
    noTool: protocol,
  }),
  runner_results: operation({
    name: "runner_results",
    method: "POST",
    path: "/runner/results",
    group: "lease protocol",
    summary: "Hand in results, and perhaps lease the next jobs",
    audience: "runner",
    action: "me:read",
    params: NoParams,
    query: NoQuery,
    body: ResultsRequest,
    status: 200,
    output: ResultsAnswer,
    sensitive: true,
    maxBodyBytes: 64 * 1024 * 1024,
    noTool: protocol,
  }),
  runner_log: operation({
    name: "runner_log",
    method: "POST",
    path: "/runner/attempts/{runId}/{epoch}/log",
    group: "lease protocol",
    summary: "Append output of an attempt; a gap answers 409 with nextOffset",
    audience: "attempt",
    action: "me:read",
    params: z.strictObject({ runId: RunId, epoch: queryInt(1, 1_000_000) }),
    query: z.strictObject({ stream: z.enum(["stdout", "stderr"]), offset: queryInt(0, Number.MAX_SAFE_INTEGER) }),
    body: z.instanceof(Uint8Array),
    bodyType: "bytes",
    status: 200,
    output: z.strictObject({ nextOffset: z.number().int() }),
    maxBodyBytes: 1024 * 1024,
    noTool: protocol,
  }),
};
