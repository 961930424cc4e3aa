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

test("an outcome loses the value in streams, files and diff, and nothing else", () => {
  const masking = new Masking(["top-secret-value", "short"]);
  const base64 = Buffer.from([0xff, 0xfe, ...Buffer.from("x top-secret-value y")]).toString("base64");
  const masked = masking.outcome({
    ...OUTCOME,
    stdout: "a top-secret-value short",
    stderr: Buffer.from("top-secret-value").toString("base64"),
    files: { f: { bytes: 22, base64 } },
    diff: "+top-secret-value",
  });
  expect(masked).toMatchObject({ stdout: "a *** short", diff: "+***" });
  expect(masked.stderr).toMatch(/^\*\*\*.{0,3}$/);
  expect(Buffer.from(masked.files.f?.base64 ?? "", "base64")).toEqual(
    Buffer.from([0xff, 0xfe, ...Buffer.from("x *** y")]),
  );
});
