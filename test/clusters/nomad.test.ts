import { describe, test } from "vitest";
import { backendConformance } from "../backends/conformance.ts";
import { nomadTarget } from "./nomad-target.ts";

if (process.env.NOMAD_ADDR) backendConformance("a real Nomad", nomadTarget);
else
  describe.skip("a real Nomad", () => {
    test("skipped: NOMAD_ADDR is not set", () => undefined);
  });
