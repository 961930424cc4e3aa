import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import * as z from "zod";
import { apiError } from "../../worker/backends/k8s/api-error.ts";
import { RIGHTS } from "../../worker/backends/k8s/rights.ts";
import { readBody } from "../../worker/backends/transport/read-body.ts";
import type { TransportRequest } from "../../worker/backends/transport/transport.ts";
import { FakeKubernetes } from "../support/fake-kubernetes/fake-kubernetes.ts";

const Exchange = z.object({
  law: z.string(),
  recording: z.string(),
  request: z.object({ method: z.enum(["GET", "POST", "DELETE"]), path: z.string(), body: z.unknown() }),
  response: z.object({ status: z.number(), headers: z.record(z.string(), z.string()), body: z.unknown() }),
});
const EXCHANGES = z
  .array(Exchange)
  .parse(JSON.parse(readFileSync(new URL("recordings/k8s-api.json", import.meta.url).pathname, "utf8")));

const bodyText = (body: unknown): string => (typeof body === "string" ? body : JSON.stringify(body));

/** What is relied on: status, JSON or not, kind, and what the backend makes of a refusal. */
function essence(status: number, headers: Headers, text: string) {
  let parsed: unknown = null;
  try {
    parsed = JSON.parse(text);
  } catch {
    // Some errors are plain text.
  }
  const isJson = parsed !== null;
  const first = z.object({ kind: z.string().optional(), type: z.string().optional() }).safeParse(parsed);
  const refusal = status < 300 ? null : apiError(RIGHTS.createJob, { status, headers, body: null }, text);
  return {
    status,
    isJson,
    kind: first.data?.kind ?? first.data?.type ?? null,
    warns: status < 300 && headers.has("warning"),
    refusal:
      refusal === null
        ? null
        : { code: refusal.code, reason: refusal.reason, retryAfterSec: refusal.retryAfterSec ?? null },
  };
}

/** The recorded namespace is the fake's own; others behave as they did when it was recorded. */
function fakeFor(law: string): FakeKubernetes {
  const fake = new FakeKubernetes({ namespace: "batch", token: "t" });
  const job = { metadata: { name: "ok-mobgi" }, spec: {} };
  if (/same name|read after|DELETE in the background/.test(law)) fake.store.add("jobs", "batch", job);
  if (/earlier life/.test(law)) fake.store.add("jobs", "batch", { metadata: { name: "again-8b3jd" }, spec: {} });
  if (/namespace that ends/.test(law)) fake.api.terminating.add("batch");
  if (/old watch/.test(law)) fake.store.oldest = 386;
  if (/absent \(K 4\)/.test(law)) {
    const namespace = fake.store.get("namespaces", "", "batch");
    if (namespace) fake.store.remove(namespace);
  }
  return fake;
}

test.each(EXCHANGES.map((exchange) => [exchange.law, exchange] as const))(
  "the fake keeps the law: %s",
  async (law, { request, response }) => {
    const fake = fakeFor(law);
    const path = request.path
      .replace(/namespaces\/(term-vvw4y|absent-ns)/, "namespaces/batch")
      .replace("labelSelector=...&", "");
    const sent: TransportRequest = {
      method: request.method,
      path,
      headers: {
        authorization: /unknown token/.test(law) ? "Bearer x" : "Bearer t",
        "content-type": "application/json",
      },
      body: request.body === null || request.body === undefined ? undefined : bodyText(request.body),
      signal: AbortSignal.timeout(5_000),
    };
    const answer = await fake.transport().fetch(sent);
    const text = await readBody(answer, 1_000_000);
    const recorded = bodyText(Array.isArray(response.body) ? response.body[0] : response.body);
    expect(essence(answer.status, answer.headers, text)).toEqual(
      essence(response.status, new Headers(response.headers), recorded),
    );
    fake.dispose();
  },
);
