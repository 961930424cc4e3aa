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
import { NomadClient } from "./client.ts";
import { controlNomad } from "./control.ts";
import type { NomadSpec } from "./document.ts";
import { followJob } from "./follow.ts";
import { inspectNomad } from "./inspect.ts";
import { jobLogs } from "./logs.ts";
import { type ObserverContext, observeJobs } from "./observe.ts";
import { probeNomad } from "./probe.ts";
import { collectJobs, stopJobs } from "./remove.ts";
import { startJob } from "./start.ts";

export interface NomadOptions {
  spec: NomadSpec;
  owner: BackendOwner;
  transport: Transport;
  /** Secret id of the ACL token; null where ACL is off. */
  token: string | null;
  now?: () => number;
  sleep?: (ms: number) => Promise<void>;
}

/** Jobs on a Nomad cluster of version 1.8 or newer; older ones work with the limits that the probe tells. */
export class NomadBackend implements Backend, Controllable {
  readonly kind = "nomad";
  readonly #context: ObserverContext;

  constructor(options: NomadOptions) {
    const { spec, owner, transport, token } = options;
    const sleep = options.sleep ?? ((ms) => new Promise<void>((resolve) => setTimeout(resolve, ms)));
    const client = new NomadClient({
      transport,
      token,
      namespace: spec.namespace ?? "default",
      region: spec.region ?? null,
      sleep,
    });
    this.#context = { client, spec, owner, sleep, now: options.now ?? Date.now };
  }

  start(attempt: BackendAttempt): Promise<StartResult> {
    const { client, spec, owner } = this.#context;
    return startJob(client, spec, owner, attempt);
  }

  observe(units: readonly WatchedUnit[], options: ObserveOptions): Promise<Sighting> {
    return observeJobs(this.#context, units, options);
  }

  stop(names: readonly string[]): Promise<void> {
    return stopJobs(this.#context.client, this.#context.owner, names);
  }

  collect(names: readonly string[]): Promise<void> {
    return collectJobs(this.#context.client, this.#context.owner, names);
  }

  logs(name: string, options: LogOptions): Promise<LogTail> {
    return jobLogs(this.#context.client, name, options);
  }

  follow(name: string, cursor: string | null, take: LogTaker): Promise<LogStep> {
    return followJob(this.#context.client, name, cursor, take);
  }

  probe(): Promise<ProbeReport> {
    const { client, spec, owner, now } = this.#context;
    return probeNomad(client, spec, owner, now);
  }

  inspect(): Promise<Inspection> {
    return inspectNomad(this.#context.client, this.#context.owner);
  }

  control(request: ControlRequest, context: ControlContext): Promise<ControlResult> {
    return controlNomad(this.#context.client, this.#context.owner, request, context);
  }
}
