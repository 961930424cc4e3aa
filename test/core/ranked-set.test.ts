import { expect, test } from "vitest";
import { RankedSet } from "../../durable-objects/scheduler/ranked-set.ts";

test("a ranked set agrees with a sorted array through a long random history", () => {
  const set = new RankedSet<number>((a, b) => a - b);
  let model: number[] = [];
  let seed = 12_345;
  const next = (below: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return seed % below;
  };
  for (let i = 0; i < 5_000; i++) {
    const value = next(300);
    if (next(2) === 0) {
      set.add(value);
      if (!model.includes(value)) model.push(value);
      model.sort((a, b) => a - b);
    } else {
      expect(set.delete(value)).toBe(model.includes(value));
      model = model.filter((other) => other !== value);
    }
    expect(set.size).toBe(model.length);
    expect(set.first()).toBe(model[0]);
    expect(set.rank(value)).toBe(model.filter((other) => other < value).length);
  }
  expect([...set]).toEqual(model);
});
