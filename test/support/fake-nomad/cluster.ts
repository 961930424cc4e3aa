import type { FakeClock } from "./clock.ts";
import { fitOf } from "./fit.ts";
import type {
  Ending,
  FakeAllocation,
  FakeEvaluation,
  FakeEvent,
  FakeJob,
  FakeNode,
  FakeToken,
  JobBody,
  TaskBody,
} from "./model.ts";

/** Clients cut a longer kill timeout (N 48). */
const MAX_KILL_MS = 30_000;

/**
 * The state of a small Nomad cluster and its laws: what real servers and clients were seen to do, by numbered fact.
 * Time is the clock's; tasks end when a test says so.
 */
export class FakeCluster {
  readonly clock: FakeClock;
  readonly version: string;
  readonly jobs = new Map<string, FakeJob>();
  readonly variables = new Map<string, { items: Record<string, string>; modifyIndex: number; modifyMs: number }>();
  readonly nodes = new Map<string, FakeNode>();
  readonly tokens = new Map<string, FakeToken>();
  allocations: FakeAllocation[] = [];
  evaluations: FakeEvaluation[] = [];
  index = 10;
  /** Called when a task has started; its answer ends the task at once. */
  program: ((job: JobBody, alloc: FakeAllocation) => Ending | null) | null = null;
  /** Really runs tasks; without one they end when a test says so. */
  executor: { start(body: JobBody, alloc: FakeAllocation): void; interrupt(alloc: FakeAllocation): void } | null = null;
  /** Why an image cannot be pulled, by its name; null when it can. */
  registry: (image: string) => string | null = () => null;
  /** Jobs registered under a name, over all its lives: what must never be above one. */
  readonly executions = new Map<string, number>();
  #waiters: (() => void)[] = [];
  #ids = 0;

  constructor(clock: FakeClock, version: string) {
    this.clock = clock;
    this.version = version;
  }

  /** Resolves at the next change of anything. */
  changed(): Promise<void> {
    return new Promise((resolve) => this.#waiters.push(resolve));
  }

  bump(): number {
    this.index++;
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const wake of waiters) wake();
    return this.index;
  }

  newId(): string {
    this.#ids++;
    return `00000000-0000-4000-8000-${this.#ids.toString(16).padStart(12, "0")}`;
  }

  addNode(name: string, facts: Partial<FakeNode> = {}): FakeNode {
    const node: FakeNode = {
      id: this.newId(),
      name,
      alive: true,
      eligible: true,
      cpuMhz: 8_000,
      memoryMb: 16_384,
      diskMb: 100_000,
      gpus: 0,
      drivers: ["docker"],
      attributes: { "kernel.name": "linux" },
      gcMaxAllocs: 50,
      images: new Set(),
      ...facts,
    };
    this.nodes.set(name, node);
    return node;
  }

  statusOf(id: string): "pending" | "running" | "dead" {
    const job = this.jobs.get(id);
    // After a stop the job is dead at once, while the task lives (N 13).
    if (!job || job.stop) return "dead";
    const states = this.of(id).map((alloc) => alloc.clientStatus);
    if (states.some((state) => state === "running" || state === "pending" || state === "unknown")) return "running";
    return states.length === 0 || this.#isBlocked(id) ? "pending" : "dead";
  }

  of(jobId: string): FakeAllocation[] {
    return this.allocations.filter((alloc) => alloc.jobId === jobId);
  }

  #isBlocked(jobId: string): boolean {
    return this.evaluations.some((evaluation) => evaluation.jobId === jobId && evaluation.status === "blocked");
  }

  /** Places a job once, or blocks it; FailedTGAllocs tells why (N 39). */
  schedule(jobId: string, triggeredBy: string): string {
    const id = this.newId();
    const failed = this.place(jobId);
    const base = { jobId, createMs: this.clock.now(), index: this.bump() };
    this.evaluations.push({ ...base, id, status: "complete", triggeredBy, failed });
    if (failed !== null)
      this.evaluations.push({ ...base, id: this.newId(), status: "blocked", triggeredBy: "queued-allocs", failed });
    return id;
  }

  /** @returns null when placed, else the placement's report */
  place(jobId: string, dryRun = false, body = this.jobs.get(jobId)?.body): Record<string, unknown> | null {
    if (!body) return null;
    const group = body.TaskGroups?.[0];
    const fit = fitOf(this, body);
    if (fit.node === null) return { [group?.Name ?? "main"]: fit.report };
    if (!dryRun) this.#run(body, fit.node);
    return null;
  }

  #run(body: JobBody, node: FakeNode): void {
    const index = this.bump();
    const alloc: FakeAllocation = {
      id: this.newId(),
      jobId: body.ID,
      jobVersion: this.jobs.get(body.ID)?.version ?? 0,
      node: node.name,
      clientStatus: "pending",
      desiredStatus: "run",
      desiredDescription: "",
      createIndex: index,
      modifyIndex: index,
      createMs: this.clock.now(),
      tasks: {},
      files: new Map(),
      stdout: "",
      stderr: "",
      collected: false,
      killedAtMs: null,
      containerAlive: false,
    };
    this.allocations.push(alloc);
    for (const task of body.TaskGroups?.[0]?.Tasks ?? [])
      alloc.tasks[task.Name] = { State: "pending", Failed: false, Events: [] };
    this.event(alloc, "main", "Received", "Task received by client");
    const Details = { message: "Building Task Directory" };
    this.event(alloc, "main", "Task Setup", "Building Task Directory", { Details });
    this.begin(alloc);
  }

  event(
    alloc: FakeAllocation,
    task: string,
    Type: string,
    DisplayMessage: string,
    rest: Partial<FakeEvent> = {},
  ): void {
    const state = alloc.tasks[task] ?? { State: "pending", Failed: false, Events: [] };
    alloc.tasks[task] = state;
    state.Events.push({ Type, DisplayMessage, Time: this.clock.now() * 1e6, ExitCode: 0, Details: {}, ...rest });
    alloc.modifyIndex = this.bump();
  }

  /** What a client does with a new allocation, up to the start of its task. */
  begin(alloc: FakeAllocation): void {
    const body = this.jobs.get(alloc.jobId)?.body;
    const task = body?.TaskGroups?.[0]?.Tasks?.find(({ Name }) => Name === "main");
    if (!body || !task || alloc.clientStatus !== "pending" || alloc.desiredStatus !== "run") return;
    const refusal = startRefusal(this, alloc, task);
    if (refusal === "waits") return;
    if (refusal !== null) {
      this.failTask(alloc, "main", refusal.type, refusal.message);
      return;
    }
    alloc.clientStatus = "running";
    alloc.containerAlive = true;
    this.executions.set(alloc.jobId, (this.executions.get(alloc.jobId) ?? 0) + 1);
    const state = alloc.tasks.main;
    if (state) state.State = "running";
    this.event(alloc, "main", "Started", "Task started by client");
    const ending = this.program?.(body, alloc) ?? null;
    if (ending !== null) this.endTask(alloc, ending);
    else this.executor?.start(body, alloc);
  }

  /** A task that cannot start. */
  failTask(alloc: FakeAllocation, task: string, type: string, message: string): void {
    this.event(alloc, task, type, message);
    this.event(alloc, task, "Not Restarting", "Policy allows no restarts");
    const state = alloc.tasks[task];
    if (state) Object.assign(state, { State: "dead", Failed: true });
    this.#over(alloc, "failed");
  }

  /** The task's process ends. */
  endTask(alloc: FakeAllocation, ending: Ending): void {
    for (const [path, content] of Object.entries(ending.files ?? {})) alloc.files.set(path, content);
    alloc.stdout += ending.stdout ?? "";
    alloc.stderr += ending.stderr ?? "";
    alloc.containerAlive = false;
    alloc.killedAtMs = null;
    const node = this.nodes.get(alloc.node);
    if (node && !node.alive) return;
    const { exitCode, oomKilled = false } = ending;
    const words = oomKilled ? "OOM Killed" : `Docker container exited with non-zero exit code: ${exitCode}`;
    const shown = exitCode === 0 && !oomKilled ? "Exit Code: 0" : `Exit Code: ${exitCode}, Exit Message: "${words}"`;
    const Details = { exit_code: String(exitCode), signal: "0", oom_killed: String(oomKilled) };
    this.event(alloc, "main", "Terminated", shown, { ExitCode: exitCode, Details });
    if (exitCode !== 0) this.event(alloc, "main", "Not Restarting", "Policy allows no restarts");
    const state = alloc.tasks.main;
    if (state) Object.assign(state, { State: "dead", Failed: exitCode !== 0 });
    this.#over(alloc, alloc.desiredStatus === "stop" || exitCode === 0 ? "complete" : "failed");
  }

  #over(alloc: FakeAllocation, status: "complete" | "failed"): void {
    // A stopped allocation is 'complete', even with exit code 137 (N 12).
    alloc.clientStatus = status;
    alloc.modifyIndex = this.bump();
    this.collectAllocations(alloc.node);
    this.unblock();
  }

  /** At its limit a client drops all finished allocations, not the oldest one (N 17). */
  collectAllocations(nodeName: string): void {
    const node = this.nodes.get(nodeName);
    const ended = this.allocations.filter(
      (alloc) => alloc.node === nodeName && (alloc.clientStatus === "complete" || alloc.clientStatus === "failed"),
    );
    if (node && ended.filter((alloc) => !alloc.collected).length > node.gcMaxAllocs)
      for (const alloc of ended) alloc.collected = true;
  }

  /** Tries again what waits for room. */
  unblock(): void {
    for (const evaluation of this.evaluations) {
      if (evaluation.status !== "blocked") continue;
      const job = this.jobs.get(evaluation.jobId);
      if (!job || job.stop) evaluation.status = "canceled";
      else if (this.place(evaluation.jobId) === null) evaluation.status = "complete";
    }
  }

  /** Asks the tasks of a job to end; they do so after their kill timeout, or when a test ends them. */
  kill(alloc: FakeAllocation, description: string): void {
    if (["complete", "failed", "lost"].includes(alloc.clientStatus)) return;
    alloc.desiredStatus = "stop";
    alloc.desiredDescription = description;
    const task = this.jobs.get(alloc.jobId)?.body.TaskGroups?.[0]?.Tasks?.[0];
    const killMs = Math.min(MAX_KILL_MS, (task?.KillTimeout ?? 5e9) / 1e6);
    this.event(alloc, "main", "Killing", `Sent interrupt. Waiting ${killMs / 1_000}s before force killing`);
    alloc.killedAtMs = this.clock.now() + killMs;
    this.executor?.interrupt(alloc);
  }

  /** Ends what was killed long enough ago; called before every answer. */
  settle(): void {
    for (const alloc of this.allocations) {
      if (alloc.killedAtMs === null || alloc.killedAtMs > this.clock.now()) continue;
      alloc.killedAtMs = null;
      if (alloc.containerAlive) this.endTask(alloc, { exitCode: 137 });
      else if (alloc.clientStatus === "pending") this.#over(alloc, "complete");
    }
  }

  /** A client stops answering; its containers go on (N 9, 49). */
  loseNode(name: string): void {
    const node = this.nodes.get(name);
    if (!node) return;
    node.alive = false;
    for (const alloc of this.allocations) {
      if (alloc.node !== name || (alloc.clientStatus !== "running" && alloc.clientStatus !== "pending")) continue;
      const disconnect = this.jobs.get(alloc.jobId)?.body.TaskGroups?.[0]?.Disconnect;
      if (disconnect && disconnect.Replace === false && (disconnect.LostAfter ?? 0) >= 3_600e9) {
        alloc.clientStatus = "unknown";
        alloc.modifyIndex = this.bump();
        continue;
      }
      alloc.clientStatus = "lost";
      alloc.desiredStatus = "stop";
      alloc.desiredDescription = "alloc is lost since its node is down";
      alloc.modifyIndex = this.bump();
      this.schedule(alloc.jobId, "node-update");
    }
  }

  /** A client answers again; what had been 'lost' turns to 'complete' (N 10). */
  returnNode(name: string): void {
    const node = this.nodes.get(name);
    if (!node) return;
    node.alive = true;
    for (const alloc of this.allocations) {
      if (alloc.node !== name) continue;
      if (alloc.clientStatus === "lost") alloc.clientStatus = "complete";
      if (alloc.clientStatus === "unknown") {
        alloc.clientStatus = "running";
        if (!alloc.containerAlive) this.endTask(alloc, { exitCode: 0 });
      }
      alloc.modifyIndex = this.bump();
    }
    this.unblock();
  }

  /** A forced drain: no replacement ever is made, and it looks like success (N 11). */
  drain(name: string): void {
    const node = this.nodes.get(name);
    if (node) node.eligible = false;
    for (const alloc of this.allocations.filter((one) => one.node === name))
      this.kill(alloc, "alloc is being migrated");
  }

  /** The server's garbage collection: dead jobs go, their variables stay (N 42, 44). */
  collectJobs(): void {
    for (const id of [...this.jobs.keys()]) {
      if (this.statusOf(id) !== "dead") continue;
      this.jobs.delete(id);
      for (const alloc of this.of(id)) alloc.collected = true;
      this.allocations = this.allocations.filter((alloc) => alloc.jobId !== id);
      this.evaluations = this.evaluations.filter((evaluation) => evaluation.jobId !== id);
    }
    this.bump();
  }
}

type Refusal = { type: string; message: string } | "waits" | null;

/** Why a client does not start a task. */
function startRefusal(cluster: FakeCluster, alloc: FakeAllocation, task: TaskBody): Refusal {
  const invalid = expressionIn(task.Config);
  if (invalid !== null) {
    const message = `2 errors occurred:\n\t* failed to parse config: \n\t* Unknown variable: There is no variable named "${invalid}".\n\n`;
    return { type: "Failed Validation", message };
  }
  for (const template of task.Templates ?? []) {
    const left = template.LeftDelim ?? "{{";
    const path = /nomadVar "([^"]+)"/.exec(template.EmbeddedTmpl)?.[1];
    if (path !== undefined && template.EmbeddedTmpl.includes(left)) {
      const allowed = path === "nomad/jobs" || path.split("/").slice(0, 3).join("/") === `nomad/jobs/${alloc.jobId}`;
      if (!allowed || !cluster.variables.has(path)) {
        cluster.event(alloc, "main", "Template", `Missing: nomad.var.block(${path}@default.global)`);
        return "waits";
      }
    } else if (template.EmbeddedTmpl.includes(left)) {
      const message = 'Template failed: (dynamic): parse: template: :1: function "braces" not defined';
      return { type: "Killing", message };
    }
  }
  const image = String(task.Config?.image ?? "");
  const tag = /:([^/:]+)$/.exec(image)?.[1] ?? "latest";
  const local = cluster.nodes.get(alloc.node)?.images.has(image) === true && tag !== "latest";
  const problem = local ? null : cluster.registry(image);
  return problem === null ? null : { type: "Driver Failure", message: `Failed to pull \`${image}\`: ${problem}` };
}

/** The first HCL expression in a task's Config that the node cannot evaluate (N 14). */
function expressionIn(value: unknown): string | null {
  if (typeof value === "string") {
    const found = /(?<![$%])[$%]\{\s*([^}]*)/.exec(value);
    return found && !/^(NOMAD_|attr\.|node\.)/.test(found[1] ?? "") ? (found[1] ?? "") : null;
  }
  if (value === null || typeof value !== "object") return null;
  for (const item of Object.values(value)) {
    const found = expressionIn(item);
    if (found !== null) return found;
  }
  return null;
}
