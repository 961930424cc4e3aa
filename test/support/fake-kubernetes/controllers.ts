import { Container } from "./machine.ts";
import { type Entry, type Json, list, type ObjectStore, part, stamp, strings } from "./store.ts";

export interface ClusterLaws {
  /** Images that nodes can run. */
  images: ReadonlySet<string>;
  /** Of the one node. */
  cpuMillis: number;
  memoryMib: number;
  /** Pods a namespace may hold; null is unlimited. */
  podQuota: number | null;
  /** Between a container's end, the pod's phase and the Job's condition. */
  lagMs: number;
}

const TAKEN_AWAY = "127.0.0.1:9";

/** Job controller, scheduler, kubelet and garbage collector of one node. */
export class Controllers {
  readonly #store: ObjectStore;
  readonly #laws: ClusterLaws;
  readonly #containers = new Map<string, Container>();
  readonly #timers = new Set<NodeJS.Timeout>();
  /** Pods whose containers go on while nobody reports. */
  nodeAway = false;

  constructor(store: ObjectStore, laws: ClusterLaws) {
    this.#store = store;
    this.#laws = laws;
  }

  /** A Job was created. */
  jobCreated(job: Entry): void {
    this.#later(5, () => this.#createPod(job, 0));
  }

  /** DELETE of a Job. Background: the Job is gone at once, its pod ends in its grace. Orphan: the pod lives on. */
  deleteJob(job: Entry, policy: "Background" | "Orphan"): void {
    this.#store.remove(job);
    const pods = this.#podsOf(job);
    if (policy === "Orphan") for (const pod of pods) pod.owners = [];
    else {
      this.#later(2, () => {
        for (const pod of pods) this.deletePod(pod);
      });
    }
  }

  deletePod(pod: Entry): void {
    if (pod.deletedAt !== null) return;
    pod.deletedAt = this.#store.now();
    this.#store.touch(pod);
    const container = this.#containers.get(pod.uid);
    if (this.nodeAway) return;
    if (container && /^(Pending|Running)$/.test(String(pod.status.phase))) {
      container.stop();
      void container.ended.then(() => this.#later(this.#laws.lagMs * 2, () => this.#store.remove(pod)));
    } else this.#later(5, () => this.#store.remove(pod));
  }

  /** Output so far; null when the kubelet knows no container. */
  logOf(pod: Entry): { text: string; stamps: readonly string[] } | null {
    const container = this.#containers.get(pod.uid);
    return container ? { text: container.log, stamps: container.stamps } : null;
  }

  dispose(): void {
    for (const timer of this.#timers) clearTimeout(timer);
    for (const container of this.#containers.values()) container.dispose();
  }

  #later(ms: number, task: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      task();
    }, ms);
    this.#timers.add(timer);
  }

  #podsOf(job: Entry): Entry[] {
    return this.#store.list("pods", job.namespace, { "batch.kubernetes.io/controller-uid": job.uid });
  }

  #exists = (entry: Entry): boolean => this.#store.get(entry.resource, entry.namespace, entry.name) === entry;

  #createPod(job: Entry, tries: number): void {
    if (!this.#exists(job)) return;
    job.status.startTime ??= stamp(this.#store.now());
    job.status.active = 1;
    const { podQuota } = this.#laws;
    const alive = this.#store
      .list("pods", job.namespace)
      .filter(({ status }) => !/^(Succeeded|Failed)$/.test(String(status.phase)));
    if (podQuota !== null && alive.length >= podQuota) {
      const message = `Error creating: pods "${job.name}-x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=${alive.length}, limited: pods=${podQuota}`;
      this.warn(job, "Job", "FailedCreate", message);
      this.#later(Math.min(1_000, 50 * 2 ** tries), () => this.#createPod(job, tries + 1));
      return;
    }
    const template = part(job.body.spec, "template");
    const labels = {
      ...strings(part(template, "metadata").labels),
      "batch.kubernetes.io/controller-uid": job.uid,
      "batch.kubernetes.io/job-name": job.name,
    };
    const suffix = Math.random().toString(36).slice(2, 7).padEnd(5, "x");
    const name = `${job.name.slice(0, 57)}-${suffix}`;
    const owner = { kind: "Job", name: job.name, uid: job.uid };
    const document = {
      metadata: { name, labels, ownerReferences: [owner] },
      spec: structuredClone(part(template.spec)),
    };
    const pod = this.#store.add("pods", job.namespace, document, { phase: "Pending" });
    this.#store.touch(job);
    this.#later(5, () => this.#schedule(job, pod));
  }

  /** An event of type Warning. */
  warn(about: Entry, kind: string, reason: string, message: string): void {
    const now = stamp(this.#store.now());
    this.#store.add("events", about.namespace, {
      metadata: { name: `${about.name}.${Math.random().toString(16).slice(2)}` },
      involvedObject: { kind, name: about.name, uid: about.uid },
      reason,
      message,
      type: "Warning",
      firstTimestamp: now,
      lastTimestamp: now,
    });
  }

  #schedule(job: Entry, pod: Entry): void {
    if (!this.#exists(pod) || pod.deletedAt !== null) return;
    const main = part(list(part(pod.body.spec).containers)[0]);
    const asked = part(main, "resources", "requests");
    const short = [
      Number.parseInt(String(asked.cpu), 10) > this.#laws.cpuMillis ? "1 Insufficient cpu" : null,
      Number.parseInt(String(asked.memory), 10) > this.#laws.memoryMib ? "1 Insufficient memory" : null,
      asked["nvidia.com/gpu"] === undefined ? null : "1 Insufficient nvidia.com/gpu",
    ].filter((it) => it !== null);
    const now = stamp(this.#store.now());
    if (short.length > 0) {
      const message = `0/1 nodes are available: ${short.join(", ")}. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.`;
      pod.status.conditions = [
        { type: "PodScheduled", status: "False", reason: "Unschedulable", message, lastTransitionTime: now },
      ];
      this.#store.touch(pod);
      return;
    }
    pod.body.spec = { ...part(pod.body.spec), nodeName: "node-a" };
    pod.status.conditions = [{ type: "PodScheduled", status: "True", lastTransitionTime: now }];
    pod.status.startTime = now;
    this.#store.touch(pod);
    this.#later(5, () => this.#run(job, pod, main));
  }

  #containerState(pod: Entry, state: Json): void {
    pod.status.containerStatuses = [{ name: "main", state }];
    this.#store.touch(pod);
  }

  #run(job: Entry, pod: Entry, main: Json): void {
    if (!this.#exists(pod) || pod.deletedAt !== null) return;
    const image = String(main.image);
    if (!this.#laws.images.has(image)) {
      this.#pullFails(pod, image, 0);
      return;
    }
    const data = this.#store.get("secrets", pod.namespace, job.name);
    if (!data) {
      this.#containerState(pod, {
        waiting: { reason: "CreateContainerConfigError", message: `secret "${job.name}" not found` },
      });
      this.#later(100, () => this.#run(job, pod, main));
      return;
    }
    const decoded = Object.fromEntries(
      Object.entries(strings(data.body.data)).map(([key, value]) => [
        key,
        Buffer.from(value, "base64").toString("utf8"),
      ]),
    );
    const container = new Container(pod, () => decoded);
    this.#containers.set(pod.uid, container);
    const startedAt = stamp(this.#store.now());
    pod.status.phase = "Running";
    this.#containerState(pod, { running: { startedAt } });
    void container.ended.then((end) =>
      this.#ended(job, pod, { ...end, startedAt, finishedAt: stamp(this.#store.now()) }),
    );
  }

  /** Flips between two reasons for as long as the pod lives. */
  #pullFails(pod: Entry, image: string, tries: number): void {
    if (!this.#exists(pod)) return;
    const host = image.startsWith(TAKEN_AWAY) ? "dial tcp 127.0.0.1:9: connect: connection refused" : "not found";
    const cause = `failed to pull and unpack image "${image}": failed to resolve reference "${image}": ${host}`;
    const back = tries % 2 === 1;
    const message = back ? `Back-off pulling image "${image}": ErrImagePull: ${cause}` : cause;
    if (!back) this.warn(pod, "Pod", "Failed", `Failed to pull image "${image}": ${cause}`);
    this.#containerState(pod, { waiting: { reason: back ? "ImagePullBackOff" : "ErrImagePull", message } });
    this.#later(1_000, () => this.#pullFails(pod, image, tries + 1));
  }

  /** The container says it first, the pod's phase next, the Job last, by FailureTarget or SuccessCriteriaMet, then the end. */
  #ended(job: Entry, pod: Entry, terminated: Json): void {
    if (this.nodeAway) return;
    this.#containerState(pod, { terminated });
    const good = terminated.exitCode === 0;
    this.#later(this.#laws.lagMs, () => {
      pod.status.phase = good ? "Succeeded" : "Failed";
      this.#store.touch(pod);
    });
    const reason = good ? "CompletionsReached" : "BackoffLimitExceeded";
    const condition = (type: string) => ({
      type,
      status: "True",
      reason,
      lastTransitionTime: stamp(this.#store.now()),
    });
    this.#later(this.#laws.lagMs * 2, () => {
      job.status.conditions = [condition(good ? "SuccessCriteriaMet" : "FailureTarget")];
      this.#store.touch(job);
    });
    this.#later(this.#laws.lagMs * 3, () => {
      job.status.conditions = [...list(job.status.conditions), condition(good ? "Complete" : "Failed")];
      job.status.active = 0;
      this.#store.touch(job);
    });
  }
}
