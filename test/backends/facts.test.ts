import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

/*
 * Facts that were seen on real clusters have numbers: K n on Kubernetes 1.34, N n on Nomad 2.0. Each one that touches what
 * the backends do is cited by a test; here stand the others, with the reason why nothing of ours can break by them.
 */
const LAST = { K: 91, N: 49 };

const UNTOUCHED: Record<string, string> = {
  "K 2": "rights are asked one by one",
  "K 6": "a token that still works for 10 s after its end harms nobody",
  "K 7": "client certificates are the relay's",
  "K 8": "no token is made",
  "K 9": "exec plugins are the relay's",
  "K 11": "nothing of a dry run is kept",
  "K 16": "names of variables are checked when a spec is registered",
  "K 19": "templates are never patched",
  "K 21": "the labels of the Job controller are never set",
  "K 39": "backoffLimit is 0",
  "K 49": "a watch goes on from its listing's own version",
  "K 53": "absence is asked for by name, twice",
  "K 70": "no exec",
  "K 71": "no exec",
  "K 72": "no exec",
  "K 73": "no exec",
  "K 74": "no exec",
  "K 75": "no exec",
  "K 76": "no proxy",
  "K 83": "nothing is deleted by force",
  "K 86": "for operators",
  "K 89": "for operators",
  "N 19": "no event stream",
  "N 20": "no exec",
  "N 32": "a timing",
  "N 34": "nothing is rescheduled",
  "N 46": "no services",
};

const HERE = import.meta.dirname;
const sources = [".", "../clusters"]
  .flatMap((folder) => readdirSync(join(HERE, folder), { recursive: true, withFileTypes: true }))
  .filter((entry) => entry.isFile() && entry.name.endsWith(".ts") && entry.name !== "facts.test.ts")
  .map((entry) => readFileSync(join(entry.parentPath, entry.name), "utf8"))
  .join("\n");

/** Numbers that are cited, also in lists and ranges: K 63, 64 and N 10–13. */
function cited(letter: string): Set<number> {
  const out = new Set<number>();
  for (const [, list = ""] of sources.matchAll(new RegExp(`\\b${letter} (\\d+(?:(?:, |[-–])\\d+)*)`, "g")))
    for (const part of list.split(", ")) {
      const [from = 0, to = from] = part.split(/[-–]/).map(Number);
      for (let n = from; n <= to; n++) out.add(n);
    }
  return out;
}

test.each(Object.entries(LAST))(
  "each numbered fact %s 1 to %d is cited by a test, or touches nothing",
  (letter, last) => {
    const known = cited(letter);
    const numbers = Array.from({ length: last }, (_, index) => index + 1);
    expect(numbers.filter((n) => !known.has(n) && UNTOUCHED[`${letter} ${n}`] === undefined)).toEqual([]);
    expect(numbers.filter((n) => known.has(n) && UNTOUCHED[`${letter} ${n}`] !== undefined)).toEqual([]);
  },
);
