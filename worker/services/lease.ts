import { EverdictError } from "../../contracts/errors.ts";
import type { BodyOf, Operation, OutputOf, ParamsOf, QueryOf } from "../../contracts/operations/operation.ts";
import type { RUNNER_OPERATIONS } from "../../contracts/operations/runners.ts";
import type { Grant, JudgedResult, RunnerAnswer, SchedulerRpc } from "../../contracts/rpc.ts";
import { MIN_PROTOCOL, PROTOCOL, type Report } from "../../contracts/runner-protocol.ts";
import { parseRunnerToken } from "../auth/authenticate.ts";
import { sha256, verify } from "../auth/digest.ts";
import { attemptJson, readyGrants } from "../dispatch/grants.ts";
import { judgeReport } from "../dispatch/judge-report.ts";
import { type Config, type Env, logOf, schedulerOf } from "../environment.ts";
import { JsonText } from "../http/reply.ts";

type Ops = typeof RUNNER_OPERATIONS;

/** What the lease protocol works with: no D1 on the way, so that a stalled store expires no lease. */
export interface RunnerContext {
  env: Env;
  config: Config;
  request: Request;
}

interface Holder {
  scheduler: SchedulerRpc;
  tokenHash: string;
}

const revoked = () =>
  new EverdictError(
    "UNAUTHENTICATED",
    "the runner token is not known or was revoked; pair this machine again (POST /runners)",
  );

/** @throws EverdictError UNAUTHENTICATED when there is no token of the form that the operation takes */
export function requireToken(audience: Operation["audience"], request: Request): void {
  if (audience === "runner" && !parseRunnerToken(request))
    throw new EverdictError("UNAUTHENTICATED", "the lease protocol needs 'Authorization: Bearer rnr_…'");
  if (
    audience === "attempt" &&
    !/^Bearer run_[0-9a-z]{26}\.\d+\.[\w-]{43}$/i.test(request.headers.get("authorization") ?? "")
  ) {
    throw new EverdictError("UNAUTHENTICATED", "the log of an attempt needs the log token that came with its grant");
  }
}

async function holder(ctx: RunnerContext): Promise<Holder> {
  const parsed = parseRunnerToken(ctx.request);
  if (!parsed) throw new EverdictError("UNAUTHENTICATED", "the lease protocol needs 'Authorization: Bearer rnr_…'");
  return { scheduler: schedulerOf(ctx.env, parsed.object), tokenHash: await sha256(parsed.token) };
}

function accepted<T>(answer: RunnerAnswer<T>): { ok: true } & T {
  if (!answer.ok) throw revoked();
  return answer;
}

/**
 * Of the raw body, before its shape is looked at: another protocol has another shape.
 * @throws EverdictError UPGRADE_REQUIRED
 */
export function checkRawProtocol(body: unknown): void {
  if (typeof body !== "object" || body === null) return;
  if ("protocol" in body && typeof body.protocol === "number") checkProtocol(body.protocol);
  if ("lease" in body) checkRawProtocol(body.lease);
}

function checkProtocol(protocol: number): void {
  if (protocol >= MIN_PROTOCOL && protocol <= PROTOCOL) return;
  const old = protocol < MIN_PROTOCOL;
  throw new EverdictError(
    "UPGRADE_REQUIRED",
    old
      ? `this runner speaks protocol ${protocol}; upgrade everdict to speak at least ${MIN_PROTOCOL}`
      : `this runner speaks protocol ${protocol}; the control plane knows up to ${PROTOCOL}`,
    {
      data: { minProtocol: MIN_PROTOCOL, protocol: PROTOCOL },
    },
  );
}

/**
 * Hands over what can be handed over; the rest goes back to its place or ends with the reason.
 * @returns a JSON array of attempts
 */
async function handOver(ctx: RunnerContext, scheduler: SchedulerRpc, grants: Grant[]): Promise<string> {
  if (grants.length === 0) return "[]";
  const readied = await readyGrants(ctx.env, grants);
  const withheld = readied.flatMap((item) =>
    item.kind === "withheld"
      ? [
          {
            runId: item.runId,
            epoch: item.epoch,
            reason: item.reason,
            detail: item.detail,
            retryAfterSec: item.retryAfterSec,
          },
        ]
      : [],
  );
  const rejected = readied.flatMap((item) =>
    item.kind === "rejected" ? [{ runId: item.runId, epoch: item.epoch, failure: item.failure }] : [],
  );
  if (withheld.length > 0) await scheduler.withhold(withheld);
  if (rejected.length > 0) await scheduler.reject(rejected);
  return `[${readied.flatMap((item) => (item.kind === "ready" ? [attemptJson(item.attempt)] : [])).join(",")}]`;
}

/** POST /runner/lease; null means 204. */
export async function lease(
  ctx: RunnerContext,
  { body }: { body: BodyOf<Ops["runner_lease"]> },
): Promise<JsonText | null> {
  const { scheduler, tokenHash } = await holder(ctx);
  const { grants, commands } = accepted(await scheduler.lease(tokenHash, body));
  const attempts = await handOver(ctx, scheduler, grants);
  if (attempts === "[]" && commands.length === 0) return null;
  return new JsonText(`{"attempts":${attempts},"commands":${JSON.stringify(commands)}}`);
}

export async function heartbeat(
  ctx: RunnerContext,
  { body }: { body: BodyOf<Ops["runner_heartbeat"]> },
): Promise<OutputOf<Ops["runner_heartbeat"]>> {
  const { scheduler, tokenHash } = await holder(ctx);
  const { attempts } = accepted(await scheduler.heartbeat(tokenHash, body));
  return { attempts };
}

const needsGrading = (report: Report): boolean => !("released" in report) && !("stopped" in report);

/** POST /runner/results: graded here, then accepted and settled in the object in one step. */
export async function results(
  ctx: RunnerContext,
  { body }: { body: BodyOf<Ops["runner_results"]> },
): Promise<JsonText> {
  const { scheduler, tokenHash } = await holder(ctx);
  const toGrade = body.results
    .filter(({ outcome }) => needsGrading(outcome))
    .map(({ runId, epoch }) => ({ runId, epoch }));
  const gradings = new Map<string, Awaited<ReturnType<typeof gradingsOf>>[number]>();
  if (toGrade.length > 0)
    for (const item of await gradingsOf(scheduler, tokenHash, body.instanceId, toGrade))
      gradings.set(`${item.runId}/${item.epoch}`, item);
  const judged = body.results.map(({ runId, epoch, outcome }): JudgedResult => {
    if ("released" in outcome) return { runId, epoch, verdict: { kind: "released" } };
    if ("stopped" in outcome) return { runId, epoch, verdict: { kind: "stopped" } };
    // Without a grading the attempt is no longer this holder's; the object answers so, whatever the verdict says.
    return { runId, epoch, verdict: judgeReport(outcome, gradings.get(`${runId}/${epoch}`) ?? null) };
  });
  const answer = accepted(await scheduler.results(tokenHash, body.instanceId, judged, body.lease ?? null));
  const attempts = await handOver(ctx, scheduler, answer.grants);
  const { accepted: taken, commands } = answer;
  return new JsonText(
    `{"accepted":${JSON.stringify(taken)},"attempts":${attempts},"commands":${JSON.stringify(commands)}}`,
  );
}

async function gradingsOf(
  scheduler: SchedulerRpc,
  tokenHash: string,
  instanceId: string,
  refs: { runId: string; epoch: number }[],
) {
  return accepted(await scheduler.gradings(tokenHash, instanceId, refs)).gradings;
}

/** POST /runner/attempts/{runId}/{epoch}/log, by the attempt's own token. */
export async function appendLog(
  ctx: RunnerContext,
  { params, query, body }: { params: ParamsOf<Ops["runner_log"]>; query: QueryOf<Ops["runner_log"]>; body: Uint8Array },
): Promise<OutputOf<Ops["runner_log"]>> {
  const token = /^Bearer ([\x21-\x7e]{1,300})$/i.exec(ctx.request.headers.get("authorization") ?? "")?.[1] ?? "";
  const [runId, epoch, mac = ""] = token.split(".");
  const subject = `${params.runId}.${params.epoch}`;
  if (
    runId !== params.runId ||
    epoch !== String(params.epoch) ||
    !(await verify(ctx.config.signingKey, "log", subject, mac))
  ) {
    throw new EverdictError("UNAUTHENTICATED", "the log token does not belong to this attempt");
  }
  const answer = await logOf(ctx.env, params.runId).append(params.epoch, query.stream, query.offset, body);
  if (answer.closed)
    throw new EverdictError("UNAUTHENTICATED", "the runner of this attempt was revoked; nothing more is taken of it");
  if (!answer.ok)
    throw new EverdictError(
      "CONFLICT",
      `offset ${query.offset} is beyond the ${answer.nextOffset} bytes stored; send from there`,
      { data: { nextOffset: answer.nextOffset } },
    );
  return { nextOffset: answer.nextOffset };
}
