import { hostname } from "node:os";
import type { Dispatcher } from "undici";
import type { Outcome } from "../../contracts/job.ts";
import { outcomeOfText, ResultScanner } from "../../contracts/outcome.ts";
import type { Failure } from "../../contracts/run.ts";
import { sleep } from "../backoff.ts";
import { OUTCOME_PATH } from "./docker-container.ts";
import { asRecord, type DockerEngine, EngineError, EngineUnreachable } from "./docker-engine.ts";
import { containerGone, dockerUnavailable, oomKilled, startRefused } from "./docker-failures.ts";
import { FrameSplitter } from "./docker-stream.ts";
import { type Execution, type ExecutionEnd, type ExecutionSink, Tail } from "./executor.ts";
import { deadlineExceeded, noOutcome } from "./failures.ts";
import { firstFileOf } from "./tar.ts";

interface Limits {
  id: string;
  nonce: string;
  deadlineMs: number;
  graceSec: number;
  memoryMb: number | null;
}

/** A container made and not yet started, one that an earlier process started, or the reason why there is none. */
export type Launched =
  | ({ kind: "created" | "adopted" } & Limits)
  | Extract<ExecutionEnd, { kind: "failure" | "stopped" }>;

/** How long the engine may be away while a container runs. */
const ENGINE_AWAY_MS = 120_000;
const REMOVE_TRIES = 5;
/** The attached stream ends with the container; a stuck one is not waited for longer. */
const STREAM_END_MS = 5_000;

interface Ended {
  exitCode: number | null;
  oomKilled: boolean;
}

/** One attempt in a container, from its creation to its removal. */
export class DockerRun implements Execution {
  readonly ended: Promise<ExecutionEnd>;
  readonly #engine: DockerEngine;
  readonly #name: string;
  readonly #sink: ExecutionSink;
  readonly #stop = new AbortController();
  readonly #tail = new Tail();
  #resolve: (end: ExecutionEnd) => void = () => undefined;
  #running: Limits | null = null;
  #late = false;

  constructor(engine: DockerEngine, name: string, sink: ExecutionSink) {
    this.#engine = engine;
    this.#name = name;
    this.#sink = sink;
    this.ended = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  stop(): void {
    if (this.#stop.signal.aborted) return;
    this.#stop.abort();
    this.#terminate();
  }

  begin(launch: (stop: AbortSignal) => Promise<Launched>): void {
    this.#run(launch)
      .catch((error: unknown): ExecutionEnd => ({ kind: "failure", failure: this.#engineFailure(error) }))
      .then(async (end) => {
        await this.#remove();
        this.#resolve(this.#stop.signal.aborted && end.kind === "failure" ? { kind: "stopped" } : end);
      })
      .catch((error: unknown) => this.#resolve({ kind: "failure", failure: this.#engineFailure(error) }));
  }

  async #run(launch: (stop: AbortSignal) => Promise<Launched>): Promise<ExecutionEnd> {
    const launched = await launch(this.#stop.signal);
    if (launched.kind === "failure" || launched.kind === "stopped") return launched;
    if (this.#stop.signal.aborted) return { kind: "stopped" };
    const scanner = new ResultScanner(launched.nonce);
    const splitter = new FrameSplitter((stream, bytes) =>
      this.#output(stream, stream === "stdout" ? scanner.push(bytes) : bytes),
    );
    // Attached before the start, so that nothing is lost; a stream of an adopted container goes on from now.
    const attached = await this.#attach(launched.id);
    const streamed = pump(attached, splitter);
    if (launched.kind === "created") {
      try {
        await this.#engine.send("POST", `/containers/${launched.id}/start`);
      } catch (error) {
        return { kind: "failure", failure: startRefused(this.#name, "of this job", error) };
      }
    }
    this.#running = launched;
    this.#sink.phase("running");
    if (this.#stop.signal.aborted) this.#terminate();
    const timer = setTimeout(() => this.#expire(), await this.#leftMs(launched));
    const ended = await this.#wait(launched.id);
    clearTimeout(timer);
    await Promise.race([streamed, sleep(STREAM_END_MS)]);
    this.#output("stdout", scanner.end());
    return this.#judge(launched, ended, scanner.outcome);
  }

  /** Ms until the deadline, which counts from the container's start. */
  async #leftMs(launched: Limits & { kind: "created" | "adopted" }): Promise<number> {
    let left = launched.deadlineMs;
    if (launched.kind === "adopted") {
      const { State } = asRecord(await this.#engine.json("GET", `/containers/${launched.id}/json`));
      const startedAt = Date.parse(String(asRecord(State).StartedAt));
      if (startedAt > 0) left += startedAt - Date.now();
    }
    return Math.min(Math.max(0, left), 2 ** 31 - 1);
  }

  #output(stream: "stdout" | "stderr", bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#tail.push(bytes);
    this.#sink.output(stream, bytes);
  }

  async #attach(id: string): Promise<Dispatcher.ResponseData> {
    const query = { stream: "1", stdout: "1", stderr: "1" };
    return this.#engine.open("POST", `/containers/${id}/attach`, { query, timeoutMs: 0 });
  }

  /** Waits for the end of the container; an engine that restarts meanwhile is asked again. */
  async #wait(id: string): Promise<Ended> {
    let awaySince: number | null = null;
    for (;;) {
      try {
        await this.#engine.json("POST", `/containers/${id}/wait`, {
          query: { condition: "not-running" },
          timeoutMs: 0,
        });
        const { State } = asRecord(await this.#engine.json("GET", `/containers/${id}/json`));
        const { ExitCode, OOMKilled, Running } = asRecord(State);
        if (Running !== true) {
          return { exitCode: typeof ExitCode === "number" ? ExitCode : null, oomKilled: OOMKilled === true };
        }
        awaySince = null;
      } catch (error) {
        if (!(error instanceof EngineUnreachable)) throw error;
        awaySince ??= performance.now();
        if (performance.now() - awaySince > ENGINE_AWAY_MS) throw error;
        await sleep(1_000);
      }
    }
  }

  async #judge(limits: Limits, ended: Ended, printed: Outcome | null): Promise<ExecutionEnd> {
    if (this.#stop.signal.aborted) return { kind: "stopped" };
    const outcome = (await this.#written(limits)) ?? printed;
    if (outcome !== null) {
      const node = hostname().slice(0, 253);
      return { kind: "outcome", outcome: { ...outcome, node, ...(ended.oomKilled ? { oomKilled: true } : {}) } };
    }
    const tail = this.#tail.text();
    const why = this.#late
      ? deadlineExceeded(this.#name, limits.deadlineMs, tail)
      : ended.oomKilled
        ? oomKilled(this.#name, limits.memoryMb, tail)
        : noOutcome(this.#name, ended.exitCode, null, tail);
    return { kind: "failure", failure: why };
  }

  /** The Outcome from its file: whole even when the stream was cut. */
  async #written(limits: Limits): Promise<Outcome | null> {
    try {
      const query = { path: OUTCOME_PATH };
      const response = await this.#engine.open("GET", `/containers/${limits.id}/archive`, { query });
      const content = firstFileOf(Buffer.from(await response.body.arrayBuffer()));
      return content === null ? null : outcomeOfText(content.toString("latin1"), limits.nonce);
    } catch (error) {
      if (error instanceof EngineError) return null;
      throw error;
    }
  }

  #expire(): void {
    this.#late = true;
    this.#terminate();
  }

  /** TERM to the program, which ends its agent; the engine's KILL after the grace. */
  #terminate(): void {
    const running = this.#running;
    if (running === null) return;
    const query = { t: String(running.graceSec + 2) };
    this.#engine
      .send("POST", `/containers/${running.id}/stop`, { query, timeoutMs: (running.graceSec + 60) * 1_000 })
      .catch(() => undefined);
  }

  async #remove(): Promise<void> {
    for (let left = REMOVE_TRIES; left > 0; left--) {
      try {
        await this.#engine.send("DELETE", `/containers/${this.#name}`, { query: { force: "1", v: "1" } });
        return;
      } catch (error) {
        // 404: gone. 409: its removal is under way.
        if (error instanceof EngineError && error.status === 404) return;
        await sleep(1_000);
      }
    }
  }

  #engineFailure(error: unknown): Failure {
    if (error instanceof EngineError && error.status === 404) return containerGone(this.#name, error.message);
    return dockerUnavailable(this.#name, error instanceof Error ? error.message : String(error));
  }
}

async function pump(response: Dispatcher.ResponseData, splitter: FrameSplitter): Promise<void> {
  try {
    for await (const part of response.body) splitter.push(Buffer.isBuffer(part) ? part : Buffer.from(String(part)));
  } catch {
    // The connection broke: the Outcome is read from its file.
  }
}
