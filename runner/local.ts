import { createHash } from "node:crypto";
import { statfsSync } from "node:fs";
import { arch, availableParallelism, freemem, hostname, platform, release, totalmem } from "node:os";
import { join } from "node:path";
import * as z from "zod";
import type { NodeView } from "../contracts/inspection.ts";
import { Job } from "../contracts/job.ts";
import { RunId } from "../contracts/names.ts";
import { RegistryAuth } from "../contracts/runner-protocol.ts";
import { ApiClient } from "./api-client.ts";
import { openEngine } from "./engine.ts";
import { DockerExecutor } from "./executors/docker.ts";
import { DockerEngine } from "./executors/docker-engine.ts";
import type { Executor } from "./executors/executor.ts";
import { HostExecutor } from "./executors/host.ts";
import { LocalUnits } from "./local-units.ts";
import type { Logger } from "./log.ts";
import { RUNNER_VERSION } from "./version.ts";

/** Body of POST /start. */
export const StartRequest = z.strictObject({
  name: z.string().min(1).max(63),
  job: Job,
  nonce: z.string().length(32),
  secrets: z.record(z.string(), z.string()),
  registryAuth: RegistryAuth.nullable(),
  gitCredential: z.string().max(16_384).nullable().optional(),
  logToken: z.string().max(300),
  runId: RunId,
  epoch: z.number().int().min(1),
  /** Longest life in ms; by default the job's time limit, grace and 300 s for grading. */
  deadlineMs: z.number().int().min(1).optional(),
});
export type StartRequest = z.infer<typeof StartRequest>;

const StopRequest = z.strictObject({ name: z.string().min(1).max(63) });
const MAX_BODY_BYTES = 2 * 1024 * 1024;
const MAX_WAIT_MS = 25_000;

export interface LocalOptions {
  /** Folder for work directories, records and results; kept over restarts. */
  stateDir: string;
  /** Where logs are uploaded: known once the server listens. */
  apiUrl(): string;
  executor: "docker" | "host" | "auto";
  log: Logger;
  env?: NodeJS.ProcessEnv;
}

/** What the handler needs of a request; both Node's and the Worker's have it. */
export interface LocalRequest {
  readonly url: string;
  readonly method: string;
  text(): Promise<string>;
}

export type LocalHandler = ((request: LocalRequest) => Promise<Response>) & {
  /** Stops following. What runs goes on and is found again by the next process. */
  close(): Promise<void>;
};

/**
 * Runs jobs on the control plane's own machine, for development: a handler for the service binding LOCAL.
 *
 * - POST /start StartRequest → 200 unit; create or adopt by name
 * - GET /units?object=<hash8>&waitMs= → 200 {units}; parks while none has finished, until one changes or waitMs is over
 * - POST /stop {name} → 200 {found}; the unit then finishes with `stopped: true`
 * - DELETE /units/{name} → 204, after its end was collected
 * - GET /machine → 200, the machine as a cluster shows one of its nodes
 *
 * A unit is {name, runId, epoch, object, state: pending|running|finished, node, outcome?, failure?, stopped?}. Units and
 * their ends survive a SIGKILL of this process.
 */
export function createLocalExecutor(options: LocalOptions): LocalHandler {
  const env = options.env ?? process.env;
  const machineId = `local-${createHash("sha256").update(options.stateDir).digest("hex").slice(0, 16)}`;
  const owner = { machineId, instanceId: machineId };
  const host = new HostExecutor({ workDir: join(options.stateDir, "host"), instanceId: machineId, env });
  const engine = options.executor === "host" ? null : openEngine(env);
  const docker =
    engine instanceof DockerEngine
      ? new DockerExecutor({ engine, owner, workDir: join(options.stateDir, "clones") })
      : null;
  const units = new LocalUnits({
    dir: join(options.stateDir, "units"),
    node: hostname().slice(0, 253),
    choose: (job) => chooseExecutor(job, options.executor === "docker" ? null : host, docker),
    executors: [host, ...(docker ? [docker] : [])],
    client: () => new ApiClient(options.apiUrl()),
    log: options.log,
  });
  const ready = units.recover();
  const handler = async (request: LocalRequest): Promise<Response> => {
    await ready;
    if (request.method === "GET" && new URL(request.url).pathname === "/machine")
      return Response.json(machineView(options.stateDir, await runtimeOf(engine)));
    return route(units, request);
  };
  return Object.assign(handler, { close: () => units.close() });
}

const MIB = 2 ** 20;

/** The engine as it answers now; one that was there at the start may be gone, and the other way round. */
async function runtimeOf(engine: ReturnType<typeof openEngine> | null): Promise<string | null> {
  if (!(engine instanceof DockerEngine)) return null;
  const facts = await engine.facts();
  return "version" in facts ? `docker://${facts.version}`.slice(0, 300) : null;
}

function machineView(folder: string, containerRuntime: string | null): NodeView {
  const disk = statfsSync(folder);
  const mib = (bytes: number): number => Math.round(bytes / MIB);
  return {
    name: hostname().slice(0, 253),
    ready: true,
    schedulable: true,
    os: platform(),
    arch: arch(),
    kernel: release(),
    containerRuntime,
    agentVersion: RUNNER_VERSION,
    address: null,
    cpu: { total: availableParallelism() * 1_000, used: null },
    memoryMb: { total: mib(totalmem()), used: mib(totalmem() - freemem()) },
    diskMb: { total: mib(disk.blocks * disk.bsize), used: mib((disk.blocks - disk.bfree) * disk.bsize) },
    gpu: { total: 0, used: null },
  };
}

function chooseExecutor(job: Job, host: Executor | null, docker: Executor | null): Executor | { missing: string } {
  if (job.image === null) return host ?? { missing: "host" };
  return docker ?? { missing: "docker" };
}

async function route(units: LocalUnits, request: LocalRequest): Promise<Response> {
  const url = new URL(request.url);
  const [, first, second] = url.pathname.split("/");
  if (request.method === "GET" && first === "units") {
    const waitMs = Math.min(MAX_WAIT_MS, Math.max(0, Number(url.searchParams.get("waitMs")) || 0));
    return Response.json({ units: await units.list(url.searchParams.get("object"), waitMs) });
  }
  if (request.method === "DELETE" && first === "units" && second) {
    await units.forget(decodeURIComponent(second));
    return new Response(null, { status: 204 });
  }
  if (request.method === "POST" && first === "start") {
    const body = await readBody(request, StartRequest);
    if (body instanceof Response) return body;
    return Response.json(await units.start(body));
  }
  if (request.method === "POST" && first === "stop") {
    const body = await readBody(request, StopRequest);
    return body instanceof Response ? body : Response.json({ found: units.stop(body.name) });
  }
  return Response.json({ detail: `no ${request.method} ${url.pathname} here` }, { status: 404 });
}

async function readBody<T>(request: LocalRequest, shape: z.ZodType<T>): Promise<T | Response> {
  const text = await request.text();
  if (text.length > MAX_BODY_BYTES) return Response.json({ detail: "the body is too large" }, { status: 413 });
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return Response.json({ detail: "the body is not JSON" }, { status: 400 });
  }
  const parsed = shape.safeParse(json);
  return parsed.success ? parsed.data : Response.json({ detail: z.prettifyError(parsed.error) }, { status: 400 });
}
