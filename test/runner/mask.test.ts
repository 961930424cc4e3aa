import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Outcome } from "../../contracts/job.ts";
import { Masker, maskBytes, maskFailure, maskOutcome, maskPatterns } from "../../runner/mask.ts";

const SECRET = "hunter2-Zebra+/=?";

function stream(text: Buffer, cuts: number[], secrets: string[]): string {
  const masker = new Masker(maskPatterns(secrets));
  const edges = [0, ...cuts.map((cut) => cut % (text.length + 1)).sort((a, b) => a - b), text.length];
  const out = edges.slice(1).map((end, index) => masker.push(text.subarray(edges[index], end)));
  return Buffer.concat([...out, masker.end()]).toString("latin1");
}

describe("secrets are masked", () => {
  test("plain, wherever the stream is cut, and nothing else is changed", () => {
    const noise = fc.string({ maxLength: 30 });
    fc.assert(
      fc.property(fc.array(noise, { maxLength: 5 }), fc.array(fc.nat(), { maxLength: 30 }), (parts, cuts) => {
        const text = Buffer.from(parts.join(SECRET));
        expect(stream(text, cuts, [SECRET])).toBe(Buffer.from(parts.join("***")).toString("latin1"));
      }),
    );
  });

  test("in base64 at every alignment, in both alphabets, wherever the stream is cut", () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 7 }),
        fc.uint8Array({ maxLength: 7 }),
        fc.array(fc.nat(), { maxLength: 20 }),
        fc.boolean(),
        (before, after, cuts, url) => {
          const whole = Buffer.concat([before, Buffer.from(SECRET), after]).toString(url ? "base64url" : "base64");
          const shown = stream(Buffer.from(`<${whole}>`), cuts, [SECRET]);
          expect(shown).toContain("***");
          // What is left on each side is at most what the neighbours and a shared character make.
          const [left = "", right = ""] = shown.slice(1, -1).split("***");
          expect(left.length).toBeLessThanOrEqual(Math.ceil((before.length * 8) / 6));
          expect(right.length).toBeLessThanOrEqual(Math.ceil((after.length * 8) / 6) + 3);
        },
      ),
    );
  });

  test("in base64 to its end, padded or not, wherever the stream is cut", () => {
    expect(stream(Buffer.from("<c2stdmVyeXNlY3JldC0xMjM=>"), [], ["sk-verysecret-123"])).toBe("<***>");
    const text = fc.string({ minLength: 8, maxLength: 20 });
    const property = fc.property(
      text,
      fc.uint8Array({ maxLength: 7 }),
      fc.constantFrom("", "\n"),
      fc.boolean(),
      fc.boolean(),
      fc.array(fc.nat(), { maxLength: 20 }),
      (secret, before, ending, url, padded, cuts) => {
        const coded = Buffer.concat([before, Buffer.from(secret + ending)]).toString("base64");
        const whole = padded ? coded : coded.replace(/=+$/, "");
        const sent = url ? whole.replaceAll("+", "-").replaceAll("/", "_") : whole;
        const shown = stream(Buffer.from(sent), cuts, [secret]);
        // A line feed in a group of its own holds nothing of the secret.
        expect(shown.slice(shown.lastIndexOf("***") + 3)).toMatch(/^(Cg(==)?)?$/);
      },
    );
    fc.assert(property);
  });

  test("when several overlap, and when one repeats without end", () => {
    expect(stream(Buffer.from("xabcdefghijklmnopx"), [3, 9], ["abcdefghij", "fghijklmnop"])).toBe("x***x");
    const repeated = Buffer.alloc(200_000, "a");
    expect(
      stream(
        repeated,
        Array.from({ length: 50 }, (_, i) => i * 4_001),
        ["a".repeat(8)],
      ),
    ).toBe("***");
  });

  test("but not values below 8 bytes, and what merely begins like one comes out in the end", () => {
    expect(stream(Buffer.from("short value"), [], ["short"])).toBe("short value");
    expect(stream(Buffer.from("see hunter2-Z"), [5], [SECRET])).toBe("see hunter2-Z");
  });

  test("in pieces at the cut of a tail", () => {
    const patterns = maskPatterns([SECRET]);
    expect(maskBytes(Buffer.from("Zebra+/=? said"), patterns, { start: true }).toString()).toBe("*** said");
    expect(maskBytes(Buffer.from("it is hunter2-"), patterns, { end: true }).toString()).toBe("it is ***");
  });

  test("in every text of an Outcome and of a failure", () => {
    const base64 = Buffer.from(`key=${SECRET}`).toString("base64");
    const outcome: Outcome = {
      exitCode: 0,
      signal: null,
      durationMs: 1,
      timedOut: false,
      stdout: SECRET,
      stderr: Buffer.from(SECRET).toString("base64"),
      stdoutBytes: 1,
      stderrBytes: 1,
      graderExits: {},
      files: { f: { bytes: 21, base64 } },
      diff: `+${SECRET}\n`,
      setupStep: `curl -u ${SECRET}`,
      setupExitCode: 1,
      node: "n",
    };
    const masked = maskOutcome(outcome, maskPatterns([SECRET]));
    expect(JSON.stringify(masked)).not.toMatch(/hunter2|Zebra|aHVudGVy/);
    expect(Buffer.from(masked.files.f?.base64 ?? "", "base64").toString()).toBe("key=***");
    const failure = maskFailure(
      { stage: "run", class: "infra", code: "X", message: SECRET, retryable: true, logTail: `Zebra+/=? ${SECRET}` },
      maskPatterns([SECRET]),
    );
    expect(failure).toMatchObject({ message: "***", logTail: "*** ***" });
  });
});
