import { test } from "vitest";
import { killWhileStarting } from "../support/cluster-kills.ts";

test(
  "a server killed 100 times between a cluster's answer and its own record starts nothing twice and loses nothing",
  {
    timeout: 1_800_000,
  },
  () => killWhileStarting(100),
);
