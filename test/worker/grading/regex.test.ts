import { describe, expect, it } from "vitest";
import { MAX_PROGRAM_SIZE, regexIssue } from "../../../worker/grading/regex.ts";

describe("regexIssue", () => {
  it("finds nothing wrong with patterns of the RE2 class", () => {
    expect(regexIssue("^(?i)passed: \\d+/\\d+$", "m")).toBeNull();
    expect(regexIssue("\\p{Greek}+")).toBeNull();
  });

  it.each([
    ["(a", "missing closing )"],
    ["(?=a)b", "look-around"],
    ["(?<!a)b", "look-around"],
    ["(a)\\1", "backreferences"],
    ["((a{1,30}){1,30}){1,30}", "repeat"],
  ])("refuses %s and says why", (pattern, why) => {
    expect(regexIssue(pattern)).toContain(why);
  });

  it("refuses a pattern whose program is too large to try on hostile text", () => {
    expect(regexIssue("([^x]{1,99}[^y]{1,99}[^z]{1,99}){1,9}")).toContain(`at most ${MAX_PROGRAM_SIZE}`);
  });
});
