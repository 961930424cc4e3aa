import * as z from "zod";
import { RelayId } from "../names.ts";
import { Timestamp } from "../run.ts";
import { operation } from "./operation.ts";
import { NoParams, NoQuery, PageQuery, page } from "./shapes.ts";

const RelayParams = z.strictObject({ id: RelayId });

/** What runtimes name in `relay`. Ids begin with "rly-", so no label does. */
export const RelayLabel = z
  .string()
  .max(63)
  .regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, "must be a DNS label: lower-case letters, digits and '-'")
  .refine((label) => !label.startsWith("rly-"), "must not start with 'rly-'")
  .describe("Name of the relay, unique in the workspace; runtimes name it in 'relay'");

/** The relay that a runtime names, as it is now. */
export const RelayOfRuntime = z
  .strictObject({
    name: z.string().describe("What the runtime names in 'relay'"),
    id: RelayId.nullable().describe("null: no relay of the workspace has this name"),
    online: z.boolean(),
    lastSeenAt: Timestamp.nullable(),
    lastError: z.string().nullable().describe("Why the last request got no answer"),
  })
  .nullable()
  .describe("The relay that carries its API traffic; null for a runtime without one");

const Names = z.array(z.string());

const RelayItem = z
  .strictObject({
    id: RelayId,
    label: z.string(),
    online: z.boolean(),
    lastSeenAt: Timestamp.nullable(),
    connectedAt: Timestamp.nullable(),
    version: z.string().nullable(),
    hostname: z.string().nullable(),
    contexts: Names.describe("Contexts its operator allows"),
    hosts: Names.describe("Hosts its operator allows"),
    exec: Names.describe("Credential plugins its operator allows"),
    requestsPerSec: z.number().describe("Over the last minute"),
    inFlight: z.number().int(),
    lastError: z
      .strictObject({
        at: Timestamp,
        code: z.string().describe("Why, in one word: refused, misconfigured, connect, tls, timeout, cut …"),
        message: z.string().describe("Why, in words"),
      })
      .nullable()
      .describe("The last request that got no answer"),
    createdAt: Timestamp,
    createdBy: z.string(),
  })
  .describe("A machine that carries API traffic to clusters");

export const RELAY_OPERATIONS = {
  list_relays: operation({
    name: "list_relays",
    method: "GET",
    path: "/workspace/relays",
    group: "relays",
    summary: "List the workspace's relays and what they may reach",
    audience: "user",
    action: "relays:read",
    params: NoParams,
    query: z.strictObject(PageQuery),
    status: 200,
    output: page(RelayItem),
  }),
  pair_relay: operation({
    name: "pair_relay",
    method: "POST",
    path: "/workspace/relays",
    group: "relays",
    summary: "Pair a machine that carries API traffic to clusters the control plane cannot dial",
    audience: "user",
    action: "relays:write",
    params: NoParams,
    query: NoQuery,
    body: z.strictObject({ label: RelayLabel }),
    status: 201,
    output: z.strictObject({
      id: RelayId,
      label: z.string(),
      token: z.string().nullable().describe("Shown once; null when the request is repeated"),
      command: z.string().describe("What to run on the machine; add what it may reach"),
    }),
    creates: true,
    sensitive: true,
  }),
  revoke_relay: operation({
    name: "revoke_relay",
    method: "DELETE",
    path: "/workspace/relays/{id}",
    group: "relays",
    summary: "Revoke a relay: its connection is closed, requests on their way end",
    audience: "user",
    action: "relays:write",
    params: RelayParams,
    query: NoQuery,
    status: 204,
    destructive: true,
  }),
};
