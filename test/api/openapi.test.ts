import { expect, test } from "vitest";
import { OPERATION_LIST } from "../../contracts/operations/index.ts";
import { dev } from "./support.ts";

/** Every reference in a document. */
function references(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(references);
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, item]) => (key === "$ref" ? [String(item)] : references(item)));
}

test("the document names every operation once, with its problems, and refers only to what it holds", async () => {
  const { body, headers } = await dev.call("GET", "/openapi.json");
  expect(body.openapi).toBe("3.1.0");
  const ids = Object.values(body.paths as Record<string, Record<string, { operationId: string }>>).flatMap((item) =>
    Object.values(item).map(({ operationId }) => operationId),
  );
  expect(ids.sort()).toEqual(OPERATION_LIST.map(({ name }) => name).sort());
  for (const ref of references(body))
    expect(body.components.schemas[ref.replace("#/components/schemas/", "")], ref).toBeDefined();
  expect(JSON.stringify(body.paths["/runs"].post.responses["400"])).toContain("#/components/schemas/Problem");
  expect(JSON.stringify(body.components.schemas.Run)).toContain("#/components/schemas/Attempt");
  expect(JSON.stringify(body).length).toBeLessThan(400_000);
  const etag = headers.get("etag") ?? "";
  expect((await dev.call("GET", "/openapi.json", undefined, { "if-none-match": etag })).status).toBe(304);
});
