import type { Backend, BackendOwner } from "../../worker/backends/backend.ts";
import type { Transport } from "../../worker/backends/transport/transport.ts";

/** Another way to a cluster than the target's own: requests through a relay. */
export interface Way {
  transport: Transport;
  /** null where the way brings the identity. */
  token: string | null;
  /** A way that brings none. */
  bare: Transport;
}

/** What is left of an owner's units on a cluster. */
export interface Leftovers {
  units: number;
  /** Pods or allocations that may still run. */
  running: number;
  secrets: number;
}

/** A cluster, real or fake, that the one suite of backends runs against. */
export interface Target {
  backend(owner: BackendOwner): Backend;
  /** A backend whose token the cluster does not know. */
  stranger(owner: BackendOwner): Backend;
  /** An image that is there and holds a POSIX shell. */
  image: string;
  /** An image that no registry has. */
  missingImage: string;
  /** Calls to the cluster's API since the target was made. */
  calls(): number;
  /** Loses the answer of the next write after it took effect. */
  loseNextAnswer(): void;
  /** Deletes a unit behind our back. */
  removeUnit(name: string): Promise<void>;
  /** Deletes what runs of a unit, but not the unit. */
  evictUnit(name: string): Promise<void>;
  leftovers(owner: BackendOwner): Promise<Leftovers>;
  close(): Promise<void>;
}
