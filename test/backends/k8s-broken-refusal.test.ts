import { afterAll, expect, test } from "vitest";
import type { Transport } from "../../worker/backends/transport/transport.ts";
import { FakeKubernetes } from "../support/fake-kubernetes/fake-kubernetes.ts";
import { attemptOf, randomOwner } from "./attempts.ts";
import { observeEnds } from "./conformance.ts";
import { fakeKubernetesTarget } from "./fake-kubernetes-target.ts";
import { endsOf, endsWell } from "./scenarios.ts";

const token = "a-token";
const fake = new FakeKubernetes({ namespace: "evals", token });
let broken = 0;

/** Breaks off the words of the next refusals to create a Job: its status has come, and no more. */
const transport: Transport = {
  async fetch(request) {
    const answer = await fake.transport().fetch(request);
    if (answer.status !== 409 || !request.path.includes("/jobs") || broken === 0) return answer;
    broken--;
    const body = new ReadableStream<Uint8Array>({ start: (controller) => controller.error(new Error("cut")) });
    return { ...answer, body };
  },
};
const target = fakeKubernetesTarget({}, fake, { transport, token, bare: transport });
afterAll(() => target.close());

test("a 409 whose words broke off ends no attempt: the start is repeated, and finds its own Job", async () => {
  const owner = randomOwner();
  const backend = target.backend(owner);
  const attempt = attemptOf(owner, { image: target.image, program: { command: "echo once" } });
  expect(await backend.start(attempt)).toMatchObject({ kind: "started", adopted: false });
  broken = 1;
  expect(await backend.start(attempt)).toMatchObject({ kind: "unknown", error: { code: "UPSTREAM_ERROR" } });
  expect(await backend.start(attempt)).toMatchObject({ kind: "started", adopted: true });
  const ends = await observeEnds(backend, [attempt]);
  expect(endsWell(endsOf(ends.get(attempt.job.name))).outcome.stdout).toBe("once\n");
});
