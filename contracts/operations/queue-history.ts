import * as z from "zod";
import { Timestamp } from "../run.ts";
import { operation } from "./operation.ts";
import { NoParams, queryInt } from "./shapes.ts";

export const HISTORY_STEP_SEC = 60;
const MAX_MINUTES = 360;
const counts = z.array(z.number().int()).max(MAX_MINUTES + 1);

export const QUEUE_HISTORY_OPERATIONS = {
  get_queue_history: operation({
    name: "get_queue_history",
    method: "GET",
    path: "/queue/history",
    group: "queue",
    summary: "Runs in flight and waiting and their memory, minute by minute, by target",
    description: "Counted from this workspace's runs of the last 24 hours, at most 20 000 of them.",
    audience: "user",
    action: "queue:read",
    params: NoParams,
    query: z.strictObject({
      minutes: queryInt(5, MAX_MINUTES).optional().describe(`Minutes back from now, 5 to ${MAX_MINUTES}; default 60`),
    }),
    status: 200,
    output: z.strictObject({
      from: Timestamp.describe("Time of the first count, ISO 8601 UTC"),
      stepSec: z.number().int().describe("Seconds between two counts"),
      complete: z.boolean().describe("false: there were more runs than are read, and the older ones are missing"),
      targets: z
        .array(
          z.strictObject({
            target: z.string(),
            inFlight: counts.describe("The most runs that ran at once in the step before each time"),
            waiting: counts.describe("The most runs that waited at once in it"),
            memoryMb: counts.describe("The most memory that runs in flight had declared in it, MiB"),
          }),
        )
        .max(1_000),
    }),
  }),
};
