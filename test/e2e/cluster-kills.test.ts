import { test } from "vitest";
import { killWhileStarting } from "../support/cluster-kills.ts";

test(
  "a server killed between a cluster's answer and its own record starts nothing twice and loses nothing",
  {
    timeout: 180_000,
  },
  () => killWhileStarting(5),
);
