import type { ControlRequest, ControlResult, Inspection } from "../../../contracts/inspection.ts";
import type {
  Backend,
  BackendAttempt,
  BackendOwner,
  ControlContext,
  Controllable,
  LogOptions,
  LogStep,
  LogTail,
  LogTaker,
  ObserveOptions,
  ProbeReport,
  Sighting,
  StartResult,
  WatchedUnit,
} from "../backend.ts";
import type { Transport } from "../transport/transport.ts";
import { K8sClient } from "./client.ts";
import { controlCluster } from "./control.ts";
import { followLog } from "./follow.ts";
import { inspectCluster } from "./inspect.ts";
import { tailLog } from "./logs.ts";
import { observeUnits } from "./observe.ts";
import { probeCluster } from "./probe.ts";
import { removeJobs } from "./remove.ts";
import { DEFAULT_NAMESPACE, type K8sSpec } from "./settings.ts";
import { startJob } from "./start.ts";

export interface K8sOptions {
  transport: Transport;
  /** Bearer token; null where the transport brings the identity. */
  token: string | null;
  owner: BackendOwner;
}

/** Runs Jobs on a Kubernetes cluster of version 1.29 or newer. */
export class K8sBackend implements Backend, Controllable {
  readonly kind = "k8s";
  readonly #spec: K8sSpec;
  readonly #owner: BackendOwner;
  readonly #client: K8sClient;

  constructor(spec: K8sSpec, options: K8sOptions) {
    this.#spec = spec;
    this.#owner = options.owner;
    this.#client = new K8sClient(options.transport, options.token, spec.namespace ?? DEFAULT_NAMESPACE);
  }

  start(attempt: BackendAttempt): Promise<StartResult> {
    return startJob(this.#client, this.#spec, this.#owner, attempt);
  }

  observe(units: readonly WatchedUnit[], options: ObserveOptions): Promise<Sighting> {
    const placementTimeoutSec = this.#spec.placementTimeoutSec ?? 0;
    return observeUnits({ client: this.#client, owner: this.#owner, placementTimeoutSec }, units, options);
  }

  stop(names: readonly string[]): Promise<void> {
    return removeJobs(this.#client, this.#owner, names);
  }

  collect(names: readonly string[]): Promise<void> {
    return removeJobs(this.#client, this.#owner, names);
  }

  logs(name: string, options: LogOptions): Promise<LogTail> {
    return tailLog(this.#client, this.#owner, name, options);
  }

  follow(name: string, cursor: string | null, take: LogTaker): Promise<LogStep> {
    return followLog(this.#client, this.#owner, name, cursor, take);
  }

  probe(): Promise<ProbeReport> {
    return probeCluster(this.#client, this.#spec, this.#owner);
  }

  inspect(): Promise<Inspection> {
    return inspectCluster(this.#client, this.#owner);
  }

  control(request: ControlRequest, context: ControlContext): Promise<ControlResult> {
    return controlCluster(this.#client, this.#owner, request, context);
  }
}
