import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import {
  type AttemptRef,
  type Command,
  HeartbeatRequest,
  type LeasedAttempt,
  LeaseRequest,
  type Report,
  ResultsRequest,
} from "../../contracts/runner-protocol.ts";

/*
 * A control plane that has the lease protocol's laws and nothing else, over real HTTP: parked polls, one per process, a
 * later one replaces an earlier; grants that must be accepted; leases that a heartbeat extends; results accepted once per
 * epoch and holder, and again when repeated; logs by offset.
 */

export const TOKEN = "rnr_test.0123456789abcdef0123";
export const LOG_TOKEN = "log-token";

type AttemptState = "granted" | "accepted" | "running" | "stopping" | "over" | "withdrawn";

interface FakeAttempt {
  attempt: LeasedAttempt;
  instanceId: string;
  state: AttemptState;
  phases: string[];
  report: Report | null;
}

interface Parked {
  request: LeaseRequest;
  answer: (status: number, body: unknown) => void;
  timer: NodeJS.Timeout;
}

export interface FakeOptions {
  /** How long a grant may stay unaccepted, in ms. */
  acceptMs?: number;
}

/** What to answer instead of working; undefined works. */
export type Fault = (
  path: string,
  seen: number,
) => { status: number; headers?: Record<string, string> } | "cut" | "lost" | undefined;

const key = (ref: AttemptRef): string => `${ref.runId}/${ref.epoch}`;

export class FakeControlPlane {
  readonly #server: Server;
  readonly #options: FakeOptions;
  readonly #sockets = new Set<Socket>();
  readonly #parked = new Map<string, Parked>();
  readonly #seen = new Map<string, number>();
  readonly #commands: Command[] = [];
  readonly attempts = new Map<string, FakeAttempt>();
  readonly queue: LeasedAttempt[] = [];
  readonly leases: LeaseRequest[] = [];
  readonly heartbeats: HeartbeatRequest[] = [];
  readonly results: { ref: AttemptRef; report: Report; accepted: boolean }[] = [];
  readonly logs = new Map<string, Buffer>();
  readonly logCalls: { stream: string; offset: number; bytes: number; status: number }[] = [];
  /** Verdicts given instead of `extended`, by attempt. */
  readonly verdicts = new Map<string, "cancel" | "superseded">();
  fault: Fault = () => undefined;
  revoked = false;

  constructor(options: FakeOptions = {}) {
    this.#options = options;
    this.#server = createServer((request, response) => {
      this.#handle(request, response).catch((error: unknown) =>
        response.destroy(error instanceof Error ? error : undefined),
      );
    });
    this.#server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
  }

  async start(port = 0): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(port, "127.0.0.1", resolve));
    return this.url;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    for (const parked of this.#parked.values()) clearTimeout(parked.timer);
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.cutConnections();
    await closed;
  }

  /** Cuts all open connections, as a proxy with an idle limit does. */
  cutConnections(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Queues a job; a parked poll with room gets it at once. */
  enqueue(...attempts: LeasedAttempt[]): void {
    this.queue.push(...attempts);
    for (const parked of [...this.#parked.values()]) this.#serve(parked);
  }

  /** Tells the holder to stop, by the parked poll and by its heartbeats. */
  cancel(ref: AttemptRef, verdict: "cancel" | "superseded" = "cancel"): void {
    const held = this.attempts.get(key(ref));
    if (held) held.state = "stopping";
    this.verdicts.set(key(ref), verdict);
    this.#commands.push({ runId: ref.runId, epoch: ref.epoch, verdict });
    for (const parked of [...this.#parked.values()]) this.#serve(parked);
  }

  reportOf(ref: AttemptRef): Report | null {
    return this.attempts.get(key(ref))?.report ?? null;
  }

  /** Waits until a condition holds. */
  async until(what: string, condition: () => boolean, ms = 15_000): Promise<void> {
    const end = performance.now() + ms;
    while (!condition()) {
      if (performance.now() > end) throw new Error(`waited ${ms} ms for: ${what}`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://fake");
    const body = await read(request);
    const seen = (this.#seen.get(url.pathname) ?? 0) + 1;
    this.#seen.set(url.pathname, seen);
    const fault = this.fault(url.pathname, seen);
    if (fault === "cut") {
      request.socket.destroy();
      return;
    }
    const answer = (status: number, json: unknown, headers: Record<string, string> = {}): void => {
      // The work was done and the answer is lost on the way.
      if (fault === "lost") {
        request.socket.destroy();
        return;
      }
      response.writeHead(status, { "content-type": "application/json", ...headers });
      response.end(json === null ? undefined : JSON.stringify(json));
    };
    if (fault !== undefined && fault !== "lost") {
      answer(fault.status, { code: "UNAVAILABLE", detail: "try later" }, fault.headers);
      return;
    }
    const bearer = (request.headers.authorization ?? "").replace("Bearer ", "");
    const log = /^\/runner\/attempts\/([^/]+)\/(\d+)\/log$/.exec(url.pathname);
    if (log) this.#log(`${log[1]}/${log[2]}/${url.searchParams.get("stream")}`, url, bearer, body, answer);
    else if (this.revoked || bearer !== TOKEN) answer(401, { code: "UNAUTHENTICATED", detail: "unknown token" });
    else if (url.pathname === "/runner/lease") this.#lease(LeaseRequest.parse(JSON.parse(body.toString())), answer);
    else if (url.pathname === "/runner/heartbeat")
      this.#heartbeat(HeartbeatRequest.parse(JSON.parse(body.toString())), answer);
    else if (url.pathname === "/runner/results")
      this.#results(ResultsRequest.parse(JSON.parse(body.toString())), answer);
    else answer(404, { code: "NOT_FOUND" });
  }

  #lease(request: LeaseRequest, answer: Parked["answer"]): void {
    this.leases.push(request);
    const before = this.#parked.get(request.instanceId);
    if (before) this.#unpark(before);
    const parked: Parked = { request, answer, timer: setTimeout(() => this.#unpark(parked), request.waitMs) };
    this.#parked.set(request.instanceId, parked);
    this.#serve(parked);
  }

  #unpark(parked: Parked): void {
    clearTimeout(parked.timer);
    this.#parked.delete(parked.request.instanceId);
    parked.answer(204, null);
  }

  #grant(request: LeaseRequest): LeasedAttempt[] {
    const held = [...this.attempts.values()].filter(
      (one) => one.instanceId === request.instanceId && one.state !== "over" && one.state !== "withdrawn",
    );
    const grants = this.queue.splice(0, Math.max(0, Math.min(request.slots.free, request.slots.total - held.length)));
    for (const attempt of grants) {
      const { instanceId } = request;
      this.attempts.set(key(attempt), { attempt, instanceId, state: "granted", phases: [], report: null });
      setTimeout(() => this.#withdraw(attempt), this.#options.acceptMs ?? 10_000).unref();
    }
    return grants;
  }

  #withdraw(attempt: LeasedAttempt): void {
    const held = this.attempts.get(key(attempt));
    if (held?.state === "granted") held.state = "withdrawn";
  }

  #serve(parked: Parked): void {
    const attempts = this.#grant(parked.request);
    const commands = this.#commands.splice(0);
    if (attempts.length === 0 && commands.length === 0) return;
    clearTimeout(parked.timer);
    this.#parked.delete(parked.request.instanceId);
    parked.answer(200, { attempts, commands });
  }

  #heartbeat(request: HeartbeatRequest, answer: Parked["answer"]): void {
    this.heartbeats.push(request);
    const attempts = request.attempts.map((ref) => {
      const held = this.attempts.get(key(ref));
      const { runId, epoch } = ref;
      if (!held || held.instanceId !== request.instanceId || held.state === "over" || held.state === "withdrawn")
        return { runId, epoch, verdict: "superseded" };
      held.phases.push(ref.phase);
      const verdict = this.verdicts.get(key(ref));
      if (verdict) return { runId, epoch, verdict };
      held.state = ref.phase === "accepted" ? "accepted" : "running";
      return { runId, epoch, verdict: "extended" };
    });
    answer(200, { attempts });
  }

  #results(request: ResultsRequest, answer: Parked["answer"]): void {
    const accepted = request.results.map(({ runId, epoch, outcome }) => {
      const ref = { runId, epoch };
      const held = this.attempts.get(key(ref));
      const repeated = held?.report != null && JSON.stringify(held.report) === JSON.stringify(outcome);
      const current =
        held && held.instanceId === request.instanceId && held.state !== "over" && held.state !== "withdrawn";
      const ok = "stopped" in outcome || repeated || current === true;
      if (held && current) {
        held.state = "over";
        held.report = outcome;
      }
      this.results.push({ ref, report: outcome, accepted: ok });
      return ok ? { ...ref, accepted: true } : { ...ref, accepted: false, reason: held ? "superseded" : "unknown" };
    });
    const attempts = request.lease ? this.#grant(request.lease) : [];
    if (request.lease) {
      this.leases.push(request.lease);
      const before = this.#parked.get(request.instanceId);
      if (before) this.#unpark(before);
    }
    answer(200, { accepted, attempts, commands: this.#commands.splice(0) });
  }

  #log(name: string, url: URL, bearer: string, body: Buffer, answer: Parked["answer"]): void {
    const offset = Number(url.searchParams.get("offset"));
    const stored = this.logs.get(name) ?? Buffer.alloc(0);
    const status = bearer !== LOG_TOKEN ? 401 : offset > stored.length ? 409 : 200;
    this.logCalls.push({ stream: url.searchParams.get("stream") ?? "", offset, bytes: body.length, status });
    if (status === 401) answer(401, { code: "UNAUTHENTICATED" });
    else if (status === 409)
      answer(409, { code: "CONFLICT", data: { nextOffset: stored.length }, nextOffset: stored.length });
    else {
      const whole = Buffer.concat([stored, body.subarray(Math.min(body.length, stored.length - offset))]);
      this.logs.set(name, whole);
      answer(200, { nextOffset: whole.length });
    }
  }
}

async function read(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts);
}
