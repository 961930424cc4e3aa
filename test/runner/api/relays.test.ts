import { afterEach, beforeEach, expect, it } from "vitest";
import { everdict, FakeApi, json } from "./fake-api.ts";

let api: FakeApi;
beforeEach(async () => {
  api = await new FakeApi().start();
});
afterEach(() => api.stop());

it("relays are paired, listed with what they reach, and revoked", async () => {
  const command = "npx everdict relay --pair rly_1.x --api-url http://here";
  api
    .on("POST /workspace/relays", json(201, { id: "rly-1", label: "office", token: "rly_1.x", command }))
    .on(
      "GET /workspace/relays",
      json(200, {
        items: [
          {
            id: "rly-1",
            label: "office",
            online: true,
            lastSeenAt: "2026-11-30T12:00:00.000Z",
            contexts: ["prod"],
            hosts: ["10.0.0.5:6443"],
            exec: [],
            requestsPerSec: 1.25,
            lastError: { at: "t", code: "refused", message: "context\u001b[2J 'x'" },
          },
        ],
        nextCursor: null,
      }),
    )
    .on("DELETE /workspace/relays/rly-1", (_seen, response) => void response.writeHead(204).end());
  const paired = await everdict(["relays", "pair", "office", "--api-url", api.url]);
  expect(paired.out).toContain(command);
  expect(paired.out).toContain("--allow-context");
  expect(api.seen[0]).toMatchObject({ body: { label: "office" } });
  const listed = await everdict(["relays", "list", "--api-url", api.url]);
  expect(listed.out).toMatch(/rly-1 +office +online +2026-11-30T12:00:00\.000Z +1\.3 +prod 10\.0\.0\.5:6443/);
  expect(listed.out).not.toContain("\u001b");
  const revoked = await everdict(["relays", "revoke", "rly-1", "--api-url", api.url]);
  expect(revoked).toMatchObject({ code: 0, err: "revoked rly-1\n" });
});
