import type { RelayRequest, RelayReset } from "./relay-protocol.ts";

/* What the Worker and a relay's object say to each other. */

export interface RelayRecord {
  id: string;
  label: string;
  workspace: string;
  /** SHA-256 of the token, hex. */
  tokenHash: string;
}

export interface RelayState {
  online: boolean;
  /** ISO 8601; null before the first connection. */
  lastSeenAt: string | null;
  connectedAt: string | null;
  version: string | null;
  hostname: string | null;
  contexts: string[];
  hosts: string[];
  exec: string[];
  /** Requests over the last minute, by second. */
  requestsPerSec: number;
  inFlight: number;
  lastError: { at: string; code: string; message: string } | null;
}

export interface RelayCall {
  /** Random; what a cancel names. */
  id: string;
  /** Whose runtime asks: a relay serves its own workspace only. */
  workspace: string;
  request: RelayRequest;
  body: string | null;
}

export type RelayAnswer =
  | { ok: true; status: number; headers: [string, string][]; body: ReadableStream<Uint8Array> }
  | { ok: false; reset: RelayReset; lastSeenAt: string | null };

/** The object of one relay. */
export interface RelayRpc {
  /** Idempotent by id. */
  pair(relay: RelayRecord): Promise<void>;
  /** Closes its connection and forgets it. */
  revoke(): Promise<void>;
  /** `awaitedBy`: a Scheduler that is told once when a relay that is away now is back. */
  state(awaitedBy?: string): Promise<RelayState>;
  call(call: RelayCall): Promise<RelayAnswer>;
  /** Ends a call whose answer nobody wants any more; unknown ids are no error. */
  cancel(callId: string): Promise<void>;
}

/** Header in which the Worker hands the hash of a connecting relay's token to its object. */
export const TOKEN_HASH_HEADER = "x-everdict-token-hash";
