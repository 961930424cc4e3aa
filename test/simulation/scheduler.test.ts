import { expect, test } from "vitest";
import { Scenario } from "./scenario.ts";

/** `SEED=123 vitest run --project simulation` replays one seed; SEEDS and EVENTS make a longer run. */
const FIRST = Number(process.env.SEED ?? 1);
const SEEDS = process.env.SEED ? 1 : Number(process.env.SEEDS ?? 1_000);
const EVENTS = Number(process.env.EVENTS ?? 2_000);

test(`${SEEDS} worlds of ${EVENTS} events break no invariant and end every run`, { timeout: 600_000 }, () => {
  let events = 0;
  for (let seed = FIRST; seed < FIRST + SEEDS; seed++) {
    const scenario = new Scenario(seed);
    try {
      scenario.run(EVENTS);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      const replay = `replay: SEED=${seed} npx vitest run --project simulation test/simulation/scheduler.test.ts`;
      throw new Error(`seed ${seed}, event ${scenario.world.events}: ${why}\n${replay}`, { cause: error });
    }
    events += scenario.world.events;
  }
  expect(events).toBeGreaterThanOrEqual(SEEDS * EVENTS);
});
