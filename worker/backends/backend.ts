import type { ControlRequest, ControlResult, Inspection } from "../../contracts/inspection.ts";
import type { JobTemplate, Outcome } from "../../contracts/job.ts";
import type { Failure } from "../../contracts/run.ts";
import type { AttemptRef, LeasedAttempt } from "../../contracts/runner-protocol.ts";

/*
 * What the control plane asks of a cluster. A backend turns a Job into the cluster's document and the cluster's words
 * into ours; it never knows the lane a Job came from, grades nothing and keeps no state between calls. An expected answer
 * is a value; a method that can only fail by the cluster's fault rejects with a ClusterError.
 */

/** A granted attempt with everything only the moment of dispatch knows. A lease has no meaning here. */
export type BackendAttempt = Omit<LeasedAttempt, "leaseMs">;

/** A fault between control plane and cluster: it says nothing about any job, and counts for the circuit. */
export interface ClusterFault {
  /** UPSTREAM_ERROR, UPSTREAM_TIMEOUT, UPSTREAM_MISCONFIGURED or RATE_LIMITED. */
  code: string;
  message: string;
  /** Seconds the cluster asked us to wait; a pause, not a failure. */
  retryAfterSec: number | null;
}

export type StartResult =
  | {
      kind: "started";
      /** Name of the unit on the cluster. */
      externalId: string;
      node: string | null;
      /** It had been created by an earlier call whose answer was lost. */
      adopted: boolean;
    }
  /** The cluster refused it for good: ends the attempt. */
  | { kind: "failed"; failure: Failure }
  /** The answer was lost or the cluster is unreachable: repeat under the same name. */
  | { kind: "unknown"; error: ClusterFault };

/** An attempt the Scheduler wants news of. */
export interface WatchedUnit extends AttemptRef {
  name: string;
  /** Marks the genuine Outcome. */
  nonce: string;
  /** Ending was asked for: only "stopped" is news then. */
  stopping: boolean;
  /** What messages name. */
  job: Pick<JobTemplate, "timeoutSec" | "resources" | "image">;
}

/** The end of a unit: its program's Outcome, or why there is none. */
export type UnitEnd =
  | {
      kind: "outcome";
      outcome: Outcome;
      /** Only the compact Outcome could be read: streams and files are missing. */
      partial: boolean;
    }
  | { kind: "failure"; failure: Failure };

/** One unit seen on a cluster. */
export interface SeenUnit extends AttemptRef {
  name: string;
  /** absent: a consistent read says there is no such unit; stopped: nothing of it runs any more. */
  state: "pending" | "running" | "finished" | "absent" | "stopped";
  node: string | null;
  /** The cluster's own words for why it is pending, or what is odd about it. */
  detail: string | null;
  /** Present with "finished" and only then. */
  end: UnitEnd | null;
}

export type Sighting =
  | {
      ok: true;
      units: SeenUnit[];
      /** Names of all units that carry this deployment's and object's labels and may still run, asked for or not. */
      listed: string[];
    }
  /** The listing failed or was partial: it says nothing about any unit. */
  | { ok: false; error: ClusterFault };

export interface ObserveOptions {
  /** How long to wait for a change by the cluster's own mechanism when the first listing has no news, in ms; at most 20 000. */
  waitMs: number;
  /** Also remove what crashes leave behind: secrets without a unit, units that ended long ago and nobody asks for. */
  sweep?: boolean;
}

/** One line of a probe's checklist. */
export interface ProbeCheck {
  name: string;
  ok: boolean;
  detail: string;
  /** What to change; null when nothing is. */
  fix: string | null;
}

export interface ProbeReport {
  reachable: boolean;
  /** For example "kubernetes v1.34.4". */
  detail: string;
  /** connect, timeout, tls, auth, api, namespace, rights, document; null when all is well. */
  reason: string | null;
  checks: ProbeCheck[];
  /** Operating systems of the nodes, where the credential may list them. */
  nodeOs: ("linux" | "windows" | "macos")[];
  /** Least-privilege policy text to paste, generated from the rights the client code declares. */
  policy: string;
}

export interface LogTail {
  /** Last bytes of what the unit's program wrote, both streams in the order the cluster kept them. */
  text: string;
  /** False when the unit has ended or is gone. */
  live: boolean;
}

/** Bounds one read of a live log. */
export interface LogOptions {
  /** Newest bytes wanted; at most 1 MiB. */
  tailBytes: number;
}

/**
 * Takes new output as it is on the cluster. @param final nothing comes after it
 * @returns how many bytes of it are done with; the rest comes again with the next step
 */
export type LogTaker = (raw: Uint8Array, final: boolean) => number;

export interface LogStep {
  /** Where the next step goes on, by whoever takes it. */
  cursor: string;
  /** False when the unit has ended: what was taken is all. */
  live: boolean;
  /** There is more already. */
  more: boolean;
}

/**
 * A cluster that runs Jobs. All calls are bounded in time and in bytes.
 */
export interface Backend {
  /** "nomad" or "k8s". */
  readonly kind: string;
  /** Creates or adopts by name: safe to repeat. Never rejects for what the cluster says. */
  start(attempt: BackendAttempt): Promise<StartResult>;
  /** One listing for all units, whatever their number; ends come collected. Never rejects for what the cluster says. */
  observe(units: readonly WatchedUnit[], options: ObserveOptions): Promise<Sighting>;
  /**
   * Asks for the end of units; a later observe says when they are gone. An unknown name is no error.
   * @throws ClusterError when one or more could not be asked
   */
  stop(names: readonly string[]): Promise<void>;
  /**
   * Deletes what is left of units whose end is durable elsewhere. An unknown name is no error.
   * @throws ClusterError when one or more could not be deleted; the sweep tries again
   */
  collect(names: readonly string[]): Promise<void>;
  /** @throws ClusterError; NOT_FOUND when the cluster knows no such unit */
  logs(name: string, options: LogOptions): Promise<LogTail>;
  /**
   * One step along a unit's output, both streams as the cluster keeps them; our own result line is left out.
   * @param cursor of the step before; null is the beginning of what the cluster still has
   * @throws ClusterError; NOT_FOUND when the cluster knows no such unit
   */
  follow(name: string, cursor: string | null, take: LogTaker): Promise<LogStep>;
  /** Checks the path from address to document, without running a job. Takes at most 10 s. */
  probe(): Promise<ProbeReport>;
  /** A look at the cluster, best effort. Takes at most 15 s and never rejects for what the cluster says. */
  inspect(): Promise<Inspection>;
}

/** What a backend needs to know of who asks, beside its runtime spec. */
export interface BackendOwner {
  /** Two deployments on one cluster never touch each other's units; a DNS label. */
  deployment: string;
  /** Object hash that names and labels begin with; units of other objects are invisible. */
  object: string;
}

/** What control acts with. */
export interface ControlContext {
  /** Names of units that live attempts need now; asked for after the cluster was listed, so that none is missed. */
  liveUnits(): Promise<ReadonlySet<string>>;
  /** Whether units that do not carry our labels, and nodes, may be touched. */
  external: boolean;
}

/** A backend that can act on its cluster beside running jobs. All of it is safe to repeat. */
export interface Controllable {
  /**
   * @throws ClusterError; NOT_FOUND for a unit or node that is not there, FORBIDDEN for one that is not ours, BAD_REQUEST
   * for what this kind of cluster cannot do
   */
  control(request: ControlRequest, context: ControlContext): Promise<ControlResult>;
}
