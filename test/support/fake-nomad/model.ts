/** A job as registered; only fields that a real server keeps are in it. */
export interface JobBody {
  ID: string;
  Namespace?: string;
  Meta?: Record<string, string> | null;
  Constraints?: { LTarget: string; RTarget: string; Operand: string }[] | null;
  Datacenters?: string[];
  TaskGroups?: GroupBody[];
  [field: string]: unknown;
}

export interface GroupBody {
  Name: string;
  Tasks?: TaskBody[];
  Disconnect?: { LostAfter?: number; Replace?: boolean } | null;
  EphemeralDisk?: { SizeMB?: number };
  [field: string]: unknown;
}

export interface TaskBody {
  Name: string;
  Driver?: string;
  Config?: Record<string, unknown>;
  Env?: Record<string, string>;
  Resources?: { CPU?: number; MemoryMB?: number; Devices?: { Name: string; Count: number }[] };
  KillTimeout?: number;
  LogConfig?: { MaxFiles?: number; MaxFileSizeMB?: number };
  Templates?: { EmbeddedTmpl: string; DestPath: string; LeftDelim?: string; RightDelim?: string; Envvars?: boolean }[];
  [field: string]: unknown;
}

export interface FakeJob {
  body: JobBody;
  stop: boolean;
  version: number;
  createIndex: number;
  jobModifyIndex: number;
  modifyIndex: number;
  submitMs: number;
}

export interface FakeEvent {
  Type: string;
  DisplayMessage: string;
  Time: number;
  ExitCode: number;
  Details: Record<string, string>;
}

export interface FakeAllocation {
  id: string;
  jobId: string;
  jobVersion: number;
  node: string;
  clientStatus: "pending" | "running" | "complete" | "failed" | "lost" | "unknown";
  desiredStatus: "run" | "stop" | "evict";
  desiredDescription: string;
  createIndex: number;
  modifyIndex: number;
  createMs: number;
  tasks: Record<string, { State: string; Failed: boolean; Events: FakeEvent[] }>;
  files: Map<string, string>;
  stdout: string;
  stderr: string;
  /** The client has deleted what it had of it. */
  collected: boolean;
  /** The task is being killed and ends then. */
  killedAtMs: number | null;
  /** Whether the container runs, whatever the server believes. */
  containerAlive: boolean;
}

export interface FakeNode {
  id: string;
  name: string;
  alive: boolean;
  eligible: boolean;
  cpuMhz: number;
  memoryMb: number;
  diskMb: number;
  gpus: number;
  drivers: string[];
  attributes: Record<string, string>;
  gcMaxAllocs: number;
  /** Kept by tag; another one is pulled. */
  images: Set<string>;
}

export interface FakeEvaluation {
  id: string;
  jobId: string;
  status: "complete" | "blocked" | "canceled";
  triggeredBy: string;
  failed: Record<string, unknown> | null;
  createMs: number;
  index: number;
}

export interface FakeToken {
  accessor: string;
  type: "client" | "management";
  /** Capabilities in the namespace, "variables:write" and so on, and "node:read". */
  rights: Set<string>;
}

/** How a task ends. */
export interface Ending {
  exitCode: number;
  oomKilled?: boolean;
  files?: Record<string, string>;
  stdout?: string;
  stderr?: string;
}

/** An answer in Nomad's own words. */
export interface Answer {
  status: number;
  body: unknown;
  headers?: Record<string, string>;
}

export const text = (status: number, body: string): Answer => ({ status, body });
