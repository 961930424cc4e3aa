import type { Controllers } from "./controllers.ts";
import {
  carries,
  type Entry,
  isJson,
  type Json,
  list,
  type ObjectStore,
  ownersOf,
  part,
  stamp,
  strings,
} from "./store.ts";

export interface Call {
  method: string;
  path: string;
  query: URLSearchParams;
  headers: Headers;
  body: string;
}

export type Reply = { status: number; headers?: Record<string, string>; body: string | AsyncIterable<string> };

export const KINDS: Record<string, { kind: string; group: string }> = {
  jobs: { kind: "Job", group: "batch" },
  pods: { kind: "Pod", group: "" },
  secrets: { kind: "Secret", group: "" },
  events: { kind: "Event", group: "" },
  nodes: { kind: "Node", group: "" },
  namespaces: { kind: "Namespace", group: "" },
  deployments: { kind: "Deployment", group: "apps" },
  networkpolicies: { kind: "NetworkPolicy", group: "networking.k8s.io" },
};

const JSON_TYPE = { "content-type": "application/json" };
export const json = (status: number, body: unknown, headers: Record<string, string> = {}): Reply => ({
  status,
  headers: { ...JSON_TYPE, ...headers },
  body: JSON.stringify(body),
});

/** A Status of kind Failure. */
export function failure(code: number, reason: string, message: string, details?: Json): Reply {
  const status = { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", message, reason, code };
  return json(code, details === undefined ? status : { ...status, details });
}

const qualified = (resource: string): string => {
  const group = KINDS[resource]?.group ?? "";
  return group === "" ? resource : `${resource}.${group}`;
};

export const notFound = (resource: string, name: string): Reply =>
  failure(404, "NotFound", `${qualified(resource)} "${name}" not found`, { name, kind: resource });

/** The fields of a Job that are known, for strict validation: what is not here is refused. */
const KNOWN_JOB_FIELDS = new Set(
  "completions parallelism backoffLimit ttlSecondsAfterFinished podReplacementPolicy template activeDeadlineSeconds suspend".split(
    " ",
  ),
);
const KNOWN_POD_FIELDS = new Set(
  "restartPolicy activeDeadlineSeconds terminationGracePeriodSeconds automountServiceAccountToken enableServiceLinks nodeSelector tolerations runtimeClassName imagePullSecrets securityContext initContainers containers volumes".split(
    " ",
  ),
);
const KNOWN_CONTAINER_FIELDS = new Set(
  "name image command args env ports resources terminationMessagePath terminationMessagePolicy securityContext volumeMounts restartPolicy imagePullPolicy".split(
    " ",
  ),
);

function unknownFields(document: Json): string[] {
  const spec = part(document.spec);
  const pod = part(spec, "template", "spec");
  const odd = (value: Json, known: ReadonlySet<string>, at: string) =>
    Object.keys(value)
      .filter((key) => !known.has(key))
      .map((key) => `unknown field "${at}.${key}"`);
  return [
    ...list(pod.containers).flatMap((it, n) =>
      odd(part(it), KNOWN_CONTAINER_FIELDS, `spec.template.spec.containers[${n}]`),
    ),
    ...odd(pod, KNOWN_POD_FIELDS, "spec.template.spec"),
    ...odd(spec, KNOWN_JOB_FIELDS, "spec"),
  ];
}

/** The resources of the API that the backend uses, with their answers. */
export class ResourceApi {
  readonly #store: ObjectStore;
  readonly #controllers: Controllers;
  /** Namespaces that are ending. */
  readonly terminating = new Set<string>();

  constructor(store: ObjectStore, controllers: Controllers) {
    this.#store = store;
    this.#controllers = controllers;
  }

  render(entry: Entry, withKind = true): Json {
    const { kind = "", group = "" } = KINDS[entry.resource] ?? {};
    const meta = {
      name: entry.name,
      ...(entry.namespace === "" ? {} : { namespace: entry.namespace }),
      uid: entry.uid,
      resourceVersion: String(entry.version),
      creationTimestamp: stamp(entry.createdAt),
      ...(entry.deletedAt === null ? {} : { deletionTimestamp: stamp(entry.deletedAt) }),
      labels: entry.labels,
      ...(entry.owners.length > 0 ? { ownerReferences: entry.owners } : {}),
    };
    const status = entry.resource === "secrets" || entry.resource === "events" ? {} : { status: entry.status };
    const type = withKind ? { kind, apiVersion: group === "" ? "v1" : `${group}/v1` } : {};
    return { ...type, metadata: meta, ...entry.body, ...status };
  }

  create(resource: string, namespace: string, call: Call): Reply {
    let document: unknown;
    try {
      document = JSON.parse(call.body);
    } catch {
      document = null;
    }
    if (!isJson(document)) return failure(400, "BadRequest", "the object provided is unrecognized");
    if (namespace !== "" && !this.#store.get("namespaces", "", namespace))
      return failure(404, "NotFound", `namespaces "${namespace}" not found`, { name: namespace, kind: "namespaces" });
    const name = String(part(document.metadata).name);
    if (this.terminating.has(namespace)) {
      const message = `${qualified(resource)} "${name}" is forbidden: unable to create new content in namespace ${namespace} because it is being terminated`;
      return failure(403, "Forbidden", message, { name, causes: [{ reason: "NamespaceTerminating" }] });
    }
    const odd = resource === "jobs" ? unknownFields(document) : [];
    if (odd.length > 0 && call.query.get("fieldValidation") === "Strict")
      return failure(
        400,
        "BadRequest",
        `Job in version "v1" cannot be handled as a Job: strict decoding error: ${odd.join(", ")}`,
      );
    const warning: Record<string, string> =
      odd.length > 0 ? { warning: odd.map((it) => `299 - "${it.replaceAll('"', '\\"')}"`).join(", ") } : {};
    if (name.length > 63 && resource === "jobs")
      return failure(
        422,
        "Invalid",
        `Job.batch "${name}" is invalid: spec.template.labels: Invalid value: "${name}": must be no more than 63 characters`,
      );
    if (this.#store.get(resource, namespace, name))
      return failure(409, "AlreadyExists", `${qualified(resource)} "${name}" already exists`, { name, kind: resource });
    if (call.query.get("dryRun") === "All") {
      const meta = {
        ...part(document.metadata),
        namespace,
        uid: "00000000-0000-4000-8000-000000000000",
        creationTimestamp: stamp(this.#store.now()),
      };
      return json(201, { ...document, metadata: meta, status: {} }, warning);
    }
    const entry = this.#store.add(resource, namespace, document);
    if (resource === "jobs") this.#controllers.jobCreated(entry);
    return json(201, this.render(entry), warning);
  }

  read(resource: string, namespace: string, name: string): Reply {
    const entry = this.#store.get(resource, namespace, name);
    return entry ? json(200, this.render(entry)) : notFound(resource, name);
  }

  patch(resource: string, namespace: string, name: string, call: Call): Reply {
    const entry = this.#store.get(resource, namespace, name);
    if (!entry) return notFound(resource, name);
    if (!/^application\/(merge|strategic-merge)-patch\+json$/.test(call.headers.get("content-type") ?? ""))
      return failure(415, "UnsupportedMediaType", "415: Unsupported Media Type");
    const change: unknown = JSON.parse(call.body);
    if (resource === "nodes") entry.body.spec = { ...part(entry.body.spec), ...part(change, "spec") };
    else entry.owners = ownersOf(part(change, "metadata"));
    this.#store.touch(entry);
    // An owner that is gone takes what it owns with it.
    for (const { kind, name: job } of entry.owners)
      if (kind === "Job" && !this.#store.get("jobs", namespace, job)) setTimeout(() => this.#store.remove(entry), 100);
    return json(200, this.render(entry));
  }

  /** A merge patch of the scale of a deployment (K 77). */
  scale(namespace: string, name: string, call: Call): Reply {
    const entry = this.#store.get("deployments", namespace, name);
    if (!entry) return notFound("deployments", name);
    if (!/^application\/(merge|strategic-merge)-patch\+json$/.test(call.headers.get("content-type") ?? ""))
      return failure(415, "UnsupportedMediaType", "415: Unsupported Media Type");
    const replicas = Number(part(JSON.parse(call.body), "spec").replicas);
    if (replicas < 0) return failure(422, "Invalid", `Scale.autoscaling "${name}" is invalid: spec.replicas`);
    entry.body.spec = { ...part(entry.body.spec), replicas };
    this.#store.touch(entry);
    return json(200, {
      kind: "Scale",
      apiVersion: "autoscaling/v1",
      metadata: { name, namespace },
      spec: { replicas },
    });
  }

  delete(resource: string, namespace: string, name: string, call: Call): Reply {
    const entry = this.#store.get(resource, namespace, name);
    if (!entry) return notFound(resource, name);
    const options = call.body === "" ? {} : part(JSON.parse(call.body));
    const wanted = part(options.preconditions).uid;
    if (wanted !== undefined && wanted !== entry.uid) {
      const message = `Operation cannot be fulfilled on Job.batch "${name}": the UID in the precondition (${String(wanted)}) does not match the UID in record (${entry.uid}). The object might have been deleted and then recreated`;
      return failure(409, "Conflict", message, { name, kind: resource });
    }
    const details = { name, group: KINDS[resource]?.group ?? "", kind: resource, uid: entry.uid };
    const done = json(200, { kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", details });
    if (resource === "pods") {
      this.#controllers.deletePod(entry);
      return json(200, this.render(entry));
    }
    if (resource !== "jobs") {
      this.#store.remove(entry);
      return done;
    }
    const policy = options.propagationPolicy ?? call.query.get("propagationPolicy");
    this.#controllers.deleteJob(entry, policy === "Background" ? "Background" : "Orphan");
    return policy === "Background" ? done : json(200, this.render(entry));
  }

  list(resource: string, namespace: string, call: Call): Reply {
    const { query } = call;
    const selector = selectorOf(query.get("labelSelector"));
    const type = /^type=(\w+)$/.exec(query.get("fieldSelector") ?? "")?.[1];
    const partial = (call.headers.get("accept") ?? "").includes("as=PartialObjectMetadataList");
    const all = this.#store
      .list(resource, namespace, selector)
      .filter(({ body }) => type === undefined || body.type === type)
      .sort((a, b) => (a.name < b.name ? -1 : 1));
    const from = Number(query.get("continue") ?? 0);
    const limit = Number(query.get("limit") ?? 0) || all.length;
    const items = all.slice(from, from + limit).map((entry) => {
      const whole = this.render(entry, false);
      return partial ? { metadata: whole.metadata } : whole;
    });
    const left = all.length - from - limit;
    // With a selector the API does not say how many are left (K 52).
    const count = query.has("labelSelector") || query.has("fieldSelector") ? {} : { remainingItemCount: left };
    const more = left > 0 ? { continue: String(from + limit), ...count } : {};
    const { kind = "", group = "" } = KINDS[resource] ?? {};
    return json(200, {
      kind: partial ? "PartialObjectMetadataList" : `${kind}List`,
      apiVersion: group === "" ? "v1" : `${group}/v1`,
      metadata: { resourceVersion: String(this.#store.version), ...more },
      items,
    });
  }

  /** An old version comes as status 200 with one ERROR event. */
  watch(resource: string, namespace: string, call: Call, gone: AbortSignal): Reply {
    const version = Number(call.query.get("resourceVersion") ?? 0);
    if (version < this.#store.oldest) {
      const message = `too old resource version: ${version} (${this.#store.oldest})`;
      const object = {
        kind: "Status",
        apiVersion: "v1",
        metadata: {},
        status: "Failure",
        message,
        reason: "Expired",
        code: 410,
      };
      return { status: 200, headers: JSON_TYPE, body: lines([`${JSON.stringify({ type: "ERROR", object })}\n`]) };
    }
    const selector = selectorOf(call.query.get("labelSelector"));
    const timeoutMs = Number(call.query.get("timeoutSeconds") ?? 60) * 1_000;
    return {
      status: 200,
      headers: JSON_TYPE,
      body: this.#events(resource, namespace, selector, version, timeoutMs, gone),
    };
  }

  async *#events(
    resource: string,
    namespace: string,
    selector: Record<string, string>,
    version: number,
    timeoutMs: number,
    gone: AbortSignal,
  ): AsyncGenerator<string> {
    const queue: string[] = [];
    let wake: () => void = () => undefined;
    const end = this.#store.watch(version, ({ type, entry }) => {
      if (entry.resource !== resource || entry.namespace !== namespace) return;
      if (!carries(entry.labels, selector)) return;
      queue.push(`${JSON.stringify({ type, object: this.render(entry) })}\n`);
      wake();
    });
    const over = AbortSignal.any([gone, AbortSignal.timeout(timeoutMs)]);
    over.addEventListener("abort", () => wake());
    try {
      while (!over.aborted) {
        const next = queue.shift();
        if (next !== undefined) yield next;
        else
          await new Promise<void>((resolve) => {
            wake = resolve;
            if (over.aborted) resolve();
          });
      }
    } finally {
      end();
    }
  }

  /** The last lines of the main container. */
  log(namespace: string, name: string, call: Call): Reply {
    const pod = this.#store.get("pods", namespace, name);
    if (!pod) return notFound("pods", name);
    const kept = this.#controllers.logOf(pod);
    if (kept === null) {
      const waiting = part(part(list(pod.status.containerStatuses)[0]).state, "waiting").reason ?? "ContainerCreating";
      return failure(400, "BadRequest", `container "main" in pod "${name}" is waiting to start: ${String(waiting)}`);
    }
    const all = kept.text.split(/(?<=\n)/).map((text, at) => ({ text, stamp: kept.stamps[at] ?? "" }));
    // Cut to whole seconds (K 55).
    const since = call.query.get("sinceTime")?.slice(0, 19);
    const wanted = Number(call.query.get("tailLines") ?? Number.POSITIVE_INFINITY);
    const selected = all.filter(({ stamp }) => since === undefined || stamp.slice(0, 19) >= since);
    const tail = selected.slice(Math.max(0, selected.length - wanted)).filter(({ text }) => text !== "");
    const stamped = call.query.get("timestamps") === "true";
    return {
      status: 200,
      headers: { "content-type": "text/plain" },
      body: tail.map(({ text, stamp }) => (stamped ? `${stamp} ${text}` : text)).join(""),
    };
  }
}

async function* lines(all: string[]): AsyncGenerator<string> {
  yield* all;
}

const selectorOf = (text: string | null): Record<string, string> =>
  strings(
    Object.fromEntries(
      (text ?? "")
        .split(",")
        .filter(Boolean)
        .map((it) => it.split("=", 2)),
    ),
  );
