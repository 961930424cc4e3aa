import fc from "fast-check";
import { expect, test } from "vitest";
import { Masking } from "../../../worker/secrets/masking.ts";
import { OUTCOME } from "../../support/protocol-runner.ts";

const value = fc
  .string({ minLength: 8, maxLength: 40 })
  .filter((text) => !text.includes("*") && new TextEncoder().encode(text).length >= 8);

test("a value is masked plain, and in base64 wherever it starts in what was encoded", () => {
  fc.assert(
    fc.property(value, fc.string({ maxLength: 5 }), fc.string({ maxLength: 5 }), (secret, before, after) => {
      const masking = new Masking([secret]);
      expect(masking.text(`${before}${secret}${after}`)).toContain("***");
      const encoded = Buffer.from(`${before}${secret}${after}`).toString("base64");
      expect(masking.text(encoded)).toContain("***");
    }),
  );
});

test("what base64 ends with, padded or not, goes with the value that it ends", () => {
  expect(new Masking(["sk-verysecret-123"]).text("c2stdmVyeXNlY3JldC0xMjM=")).toBe("***");
  const endings = fc.constantFrom("", "\n");
  fc.assert(
    fc.property(value, fc.string({ maxLength: 4 }), endings, fc.boolean(), (secret, before, ending, padded) => {
      const whole = Buffer.from(`${before}${secret}${ending}`).toString("base64");
      const shown = new Masking([secret]).text(padded ? whole : whole.replace(/=+$/, ""));
      const after = shown.slice(shown.lastIndexOf("***") + 3);
      // A line feed in a group of its own holds nothing of the value.
      expect(after).toMatch(/^(Cg(==)?)?$/);
    }),
  );
});

test("an outcome loses the value in streams, files and diff, and nothing else", () => {
  const masking = new Masking(["top-secret-value", "short"]);
  const base64 = Buffer.from([0xff, 0xfe, ...Buffer.from("x top-secret-value y")]).toString("base64");
  const masked = masking.outcome({
    ...OUTCOME,
    stdout: "a top-secret-value short",
    stderr: Buffer.from("top-secret-value").toString("base64"),
    files: { f: { bytes: 22, base64 } },
    diff: "+top-secret-value",
    setupExitCode: 1,
    setupStep: "curl -u top-secret-value",
  });
  expect(masked).toMatchObject({ stdout: "a *** short", stderr: "***", diff: "+***", setupStep: "curl -u ***" });
  expect(Buffer.from(masked.files.f?.base64 ?? "", "base64")).toEqual(
    Buffer.from([0xff, 0xfe, ...Buffer.from("x *** y")]),
  );
});

/** What a reader sees of a stream that comes in pieces; what was held back is given again, as a follower does. */
function shownInPieces(masking: Masking, whole: Uint8Array, cuts: readonly number[]): string {
  const decoder = new TextDecoder("latin1");
  let out = "";
  let from = 0;
  for (const cut of [...cuts].sort((a, b) => a - b)) {
    const { shown, used } = masking.piece(whole.subarray(from, Math.max(from, cut)), false);
    out += decoder.decode(shown);
    from += used;
  }
  const last = masking.piece(whole.subarray(from), true);
  expect(last.used).toBe(whole.length - from);
  return out + decoder.decode(last.shown);
}

test("however a stream is cut, its values are masked as if it had come at once", () => {
  const secret = "s3cret-s3cret-value";
  const masking = new Masking([secret, "another-value", "s3cret-s3"]);
  const forms = [
    secret,
    "another-value",
    btoa(secret),
    btoa(`x${secret}`).replaceAll("+", "-"),
    "s3cret-",
    "plain text",
    "\n",
  ];
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom(...forms), { maxLength: 12 }),
      fc.array(fc.nat(200), { maxLength: 8 }),
      (words, cuts) => {
        const whole = new TextEncoder().encode(words.join(""));
        const shown = shownInPieces(
          masking,
          whole,
          cuts.map((cut) => Math.min(cut, whole.length)),
        );
        expect(shown).toBe(shownInPieces(masking, whole, []));
        expect(shown).not.toContain(secret);
        expect(shown).not.toContain(btoa(secret).slice(0, -2));
      },
    ),
  );
});

test("a tail that begins inside a value does not show the rest of it", () => {
  const masking = new Masking(["top-secret-value"]);
  expect(masking.tail("secret-value and more")).toBe("*** and more");
  expect(masking.tail("lue and more")).toBe("lue and more");
  expect(masking.tail("plain top-secret-value")).toBe("plain ***");
  const cut = {
    ...OUTCOME,
    stdout: "secret-value and more",
    stdoutBytes: 100_000,
    stderr: "secret-value",
    stderrBytes: 12,
  };
  expect(masking.outcome(cut)).toMatchObject({ stdout: "*** and more", stderr: "secret-value" });
  const failure = { stage: "run", class: "infra", code: "X", message: "m", retryable: true } as const;
  expect(masking.failure({ ...failure, logTail: "secret-value" }).logTail).toBe("***");
});

test("nothing but values for long is one mask, not a stream that stands still", () => {
  const masking = new Masking(["abababab"]);
  const { shown, used } = masking.piece(new TextEncoder().encode("ab".repeat(40_000)), false);
  expect(used).toBe(80_000);
  expect(new TextDecoder().decode(shown)).toBe("***");
});
