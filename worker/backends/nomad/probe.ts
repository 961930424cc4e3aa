import type { z } from "zod";
import type { BackendOwner, ProbeCheck, ProbeReport } from "../backend.ts";
import { diagnose } from "../diagnosis.ts";
import { NOMAD_DIAGNOSIS } from "../diagnosis-nomad.ts";
import { sampleAttempt } from "../sample-attempt.ts";
import { ClusterError, faultOf } from "../transport/cluster-error.ts";
import { planJob } from "./calls.ts";
import { isDenied, type NomadAnswer, type NomadClient, type NomadRequest, parsed } from "./client.ts";
import { jobDocument, type NomadSpec, variablePath } from "./document.ts";
import { placementWords } from "./placement.ts";
import { grantText, policyText, type Right } from "./rights.ts";
import { Members, Nodes, Plan, Policy, TokenSelf } from "./shapes.ts";

const PROBE_MS = 10_000;
/** First version that keeps the Disconnect block; older ones drop it without a word (N 9). */
const MIN_VERSION = [1, 8] as const;
/** No variable is ever at this index, so a write that names it conflicts and changes nothing. */
const NO_INDEX = "9007199254740991";
const MAX_POLICIES = 10;

interface Findings {
  checks: ProbeCheck[];
  reason: string | null;
  detail: string;
  nodeOs: ProbeReport["nodeOs"];
}

/** Checks the path from the address to the placement of the exact document, within 10 s. */
export async function probeNomad(
  client: NomadClient,
  spec: NomadSpec,
  owner: BackendOwner,
  now: () => number,
): Promise<ProbeReport> {
  const policy = policyText(client.namespace, spec.externalControl === true);
  const found: Findings = { checks: [], reason: null, detail: "nomad", nodeOs: [] };
  const signal = AbortSignal.timeout(PROBE_MS);
  try {
    const reached = await checkToken(client, found, signal);
    if (reached) {
      await checkVersion(client, found, signal);
      await checkRights(client, owner, found, signal);
      await checkNodes(client, found, signal);
      await checkDocument(client, spec, owner, found, now, signal);
    }
    return { reachable: found.reason === null, ...found, policy };
  } catch (error) {
    const fault = faultOf(error);
    const reason = unreachableReason(error);
    found.checks.push({ name: "address", ok: false, detail: fault.message, fix: addressFix(reason, spec.addr) });
    return { reachable: false, detail: fault.message, reason, checks: found.checks, nodeOs: found.nodeOs, policy };
  }
}

/** Why no Nomad server answered, in the words that a probe and a look share. */
export function unreachableReason(error: unknown): string {
  if (!(error instanceof ClusterError)) return "api";
  if (error.code === "UPSTREAM_TIMEOUT") return "timeout";
  return error.reason === "tls" || error.reason === "connect" ? error.reason : "api";
}

const ADDRESS_FIX: Record<string, string> = {
  connect: "nothing answers there: correct 'addr', open the way, or name a relay in 'relay'",
  timeout: "the address accepts the connection and then stays silent: is it the HTTP port of Nomad (4646)?",
  tls: "use a certificate that public authorities sign, or a relay beside the cluster",
  api: "the address answers, but not as Nomad's HTTP API: correct 'addr'",
};
const addressFix = (reason: string, addr: string): string => `${ADDRESS_FIX[reason] ?? ADDRESS_FIX.api} (${addr})`;

const pass = (name: string, detail: string): ProbeCheck => ({ name, ok: true, detail, fix: null });

/** The first failure is the reason of the whole, and its words are. */
function fail(found: Findings, reason: string, check: Omit<ProbeCheck, "ok">): void {
  if (found.reason === null) {
    found.reason = reason;
    const words = check.name.startsWith("right ")
      ? `the token lacks the ${check.name} (${check.detail})`
      : check.detail;
    found.detail = words.slice(0, 1_000);
  }
  found.checks.push({ ok: false, ...check });
}

/** The one call that tells tokens apart (N 22); its body holds the token itself, so nothing of it is shown. */
async function checkToken(client: NomadClient, found: Findings, signal: AbortSignal): Promise<boolean> {
  const answer = await client.ask({ method: "GET", path: "/v1/acl/token/self", right: "none", signal });
  const words = answer.text.slice(0, 500);
  if (answer.status === 200) {
    const token = parsed(answer, TokenSelf);
    found.checks.push(pass("address", "a Nomad server answers"));
    if (token.AccessorID === "anonymous") return anonymous(client, found, signal);
    found.checks.push(pass("token", `the token is known (${token.Type})`));
    if (token.Type !== "management") await checkPolicies(client, token.Policies ?? [], found, signal);
    return true;
  }
  if (answer.status === 400 && /ACL support disabled/i.test(words)) {
    found.checks.push(pass("address", "a Nomad server answers"), pass("token", "ACL is off; no token is needed"));
    return true;
  }
  const unknown = isDenied(answer) || /ACL token not found|signed token|missing secret id|UUID/i.test(words);
  if (!unknown) throw notNomad(answer);
  found.checks.push(pass("address", "a Nomad server answers"));
  fail(found, "auth", {
    name: "token",
    detail:
      answer.status === 500
        ? "the Nomad server was given no token, or one that is malformed"
        : "the Nomad server does not know the token",
    fix: "store a valid Nomad ACL token (its Secret ID) under the name in authSecret",
  });
  return false;
}

async function anonymous(client: NomadClient, found: Findings, signal: AbortSignal): Promise<boolean> {
  const jobs = await client.ask({
    method: "GET",
    path: "/v1/jobs",
    query: { per_page: "1" },
    right: "list-jobs",
    signal,
  });
  if (!isDenied(jobs)) {
    found.checks.push(pass("token", "no token is set, and the anonymous policy allows listing jobs"));
    return true;
  }
  fail(found, "auth", {
    name: "token",
    detail: "no token is set, and the anonymous policy denies listing jobs",
    fix: "store a Nomad ACL token and name it in authSecret",
  });
  return false;
}

const notNomad = (answer: NomadAnswer): ClusterError =>
  new ClusterError("UPSTREAM_MISCONFIGURED", "the address does not answer as a Nomad server does", {
    status: answer.status,
    reason: "not-nomad",
  });

async function checkVersion(client: NomadClient, found: Findings, signal: AbortSignal): Promise<void> {
  const answer = await client.ask({ method: "GET", path: "/v1/agent/members", right: "none", signal });
  if (answer.status !== 200) {
    found.checks.push(pass("version", "the server does not tell its version to this token"));
    return;
  }
  const builds = parsed(answer, Members)
    .Members.map(({ Tags }) => Tags?.build ?? "")
    .filter((text) => text !== "");
  const oldest = builds.sort(compareBuilds)[0];
  if (oldest === undefined) return;
  if (found.reason === null) found.detail = `nomad ${oldest}`;
  const old = compareBuilds(oldest, MIN_VERSION.join(".")) < 0;
  found.checks.push({
    name: "version",
    ok: !old,
    detail: old ? `Nomad ${oldest} runs a job a second time when its node is lost` : `Nomad ${oldest}`,
    fix: old ? "upgrade the servers to Nomad 1.8 or newer" : null,
  });
}

function compareBuilds(a: string, b: string): number {
  const [left, right] = [a, b].map((text) => text.split(/[.+-]/).map(Number));
  for (let at = 0; at < 3; at++) {
    const difference = (left?.[at] || 0) - (right?.[at] || 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** A right that is only used on an allocation cannot be tried without one, so the policy's own text is looked at. */
async function checkPolicies(
  client: NomadClient,
  policies: readonly string[],
  found: Findings,
  signal: AbortSignal,
): Promise<void> {
  let rules = "";
  for (const name of policies.slice(0, MAX_POLICIES)) {
    const path = `/v1/acl/policy/${encodeURIComponent(name)}`;
    const answer = await client.ask({ method: "GET", path, right: "none", signal });
    if (answer.status !== 200) return;
    rules += parsed(answer, Policy).Rules;
  }
  if (rules === "" || /read-fs|policy\s*=\s*"write"/.test(rules)) return;
  fail(found, "rights", {
    name: "right read-fs",
    detail: "no policy of the token grants it; results of jobs could not be read",
    fix: grantText("read-fs", client.namespace),
  });
}

interface Trial {
  right: Right;
  request: Pick<NomadRequest, "method" | "path" | "query" | "body">;
}

function trials(client: NomadClient, owner: BackendOwner): Trial[] {
  const probe = probeName(owner);
  const path = variablePath(probe);
  const variable = { Path: path, Namespace: client.namespace, Items: { probe: "1" } };
  return [
    { right: "list-jobs", request: { method: "GET", path: "/v1/jobs", query: { prefix: probe, per_page: "1" } } },
    { right: "read-job", request: { method: "GET", path: `/v1/job/${probe}` } },
    {
      right: "variables:write",
      request: { method: "PUT", path: `/v1/var/${path}`, query: { cas: NO_INDEX }, body: variable },
    },
    { right: "variables:destroy", request: { method: "DELETE", path: `/v1/var/${path}`, query: { cas: NO_INDEX } } },
  ];
}

/** Each right by a call that changes nothing. */
async function checkRights(
  client: NomadClient,
  owner: BackendOwner,
  found: Findings,
  signal: AbortSignal,
): Promise<void> {
  const answers = await Promise.all(
    trials(client, owner).map(async ({ right, request }) => ({
      right,
      denied: isDenied(await client.ask({ ...request, right, signal })),
    })),
  );
  const denied = (right: Right): boolean => answers.some((answer) => answer.right === right && answer.denied);
  if (denied("list-jobs") && denied("read-job")) {
    // A limited token gets the same answer for a namespace that is not there (N 23).
    fail(found, "namespace", {
      name: "namespace",
      detail: `namespace '${client.namespace}' is absent or not permitted, the cluster does not tell which`,
      fix: `correct 'namespace' of the runtime, or paste the policy below for '${client.namespace}'`,
    });
    return;
  }
  for (const { right, denied: missing } of answers) {
    if (!missing) found.checks.push(pass(`right ${right}`, "granted"));
    else {
      const detail = right.startsWith("variables:")
        ? "denied: jobs with secrets or a git credential will be refused"
        : "denied";
      fail(found, "rights", { name: `right ${right}`, detail, fix: grantText(right, client.namespace) });
    }
  }
}

async function checkNodes(client: NomadClient, found: Findings, signal: AbortSignal): Promise<void> {
  const request: NomadRequest = {
    method: "GET",
    path: "/v1/nodes",
    right: "node:read",
    maxBytes: 32 * 1024 * 1024,
    signal,
  };
  const answer = await client.ask(request);
  if (isDenied(answer)) {
    fail(found, "rights", {
      name: "right node:read",
      detail: "denied: the operating systems of the nodes stay unknown",
      fix: grantText("node:read", client.namespace),
    });
    return;
  }
  if (answer.status !== 200) throw client.errorOf(answer, request);
  const nodes = parsed(answer, Nodes);
  found.nodeOs = operatingSystems(nodes);
  const docker = nodes.filter((node) => node.Drivers?.docker?.Healthy === true).length;
  const detail = `${docker} of ${nodes.length} nodes have a healthy docker driver`;
  if (docker > 0) found.checks.push(pass("nodes", detail));
  else
    fail(found, "document", { name: "nodes", detail, fix: "install docker on a client and enable the docker driver" });
}

function operatingSystems(nodes: z.infer<typeof Nodes>): ProbeReport["nodeOs"] {
  const types = new Set(nodes.map((node) => node.Drivers?.docker?.Attributes?.["driver.docker.os_type"]));
  return (["linux", "windows"] as const).filter((os) => types.has(os));
}

/** The scheduler's dry run of the very document that a small job would have; its right is submit-job. */
async function checkDocument(
  client: NomadClient,
  spec: NomadSpec,
  owner: BackendOwner,
  found: Findings,
  now: () => number,
  signal: AbortSignal,
): Promise<void> {
  const built = jobDocument(
    sampleAttempt(owner, { image: spec.image, gpu: null, name: probeName(owner), deadlineMs: now() }),
    spec,
    owner,
  );
  if (!built.ok) {
    fail(found, "document", { name: "document", detail: built.failure.message, fix: null });
    return;
  }
  const answer = await planJob(client, built.job, signal);
  const words = answer.text.trim().slice(0, 500);
  if (isDenied(answer)) {
    const fix = grantText("submit-job", client.namespace);
    fail(found, "rights", { name: "right submit-job", detail: "denied: no job can be started", fix });
  } else if (/nonexistent namespace/.test(words)) {
    const detail = `namespace '${client.namespace}' does not exist`;
    fail(found, "namespace", { name: "namespace", detail, fix: "create it, or correct 'namespace' of the runtime" });
  } else if (answer.status === 200) {
    found.checks.push(pass("right submit-job", "granted"));
    const missing = placementWords(parsed(answer, Plan).FailedTGAllocs);
    if (missing === null) found.checks.push(pass("placement", "a small job would be placed now"));
    else found.checks.push(unplaced(missing));
  } else if (/errors? occurred|validation failed/.test(words)) {
    const fix = "see 'constraints' and 'datacenters' of the runtime";
    fail(found, "document", { name: "document", detail: words.replace(/\s+/g, " "), fix });
  } else throw client.errorOf(answer, { method: "GET", right: "submit-job" });
}

/** A full cluster is no fault of the runtime's definition, so this check warns and gives no reason. */
function unplaced(words: string): ProbeCheck {
  const sign = { source: "evaluation", reason: "", message: words, forSec: 0 };
  const { row } = diagnose(NOMAD_DIAGNOSIS, sign, "schedule");
  return { name: "placement", ok: false, detail: `a small job would not be placed now: ${words}`, fix: row.hint };
}

/** Of no run: what a probe would register, and what its policy checks ask about. */
const probeName = (owner: BackendOwner): string => `evd-${owner.object}-probe`;
