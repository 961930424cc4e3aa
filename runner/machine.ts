import { readFileSync } from "node:fs";
import { availableParallelism, hostname, totalmem } from "node:os";
import type { Os } from "../contracts/capabilities.ts";

/** What this machine is, in the words of the lease protocol. */
export interface Machine {
  os: Os;
  arch: string;
  hostname: string;
  /** MiB that jobs may have together. */
  memoryMb: number;
  /** Millicores that jobs may have together. */
  cpu: number;
}

const OS: Partial<Record<NodeJS.Platform, Os>> = { win32: "windows", darwin: "macos" };

/** The memory limit of our own cgroup, when it is below the machine's; v2 then v1. */
function cgroupMemoryBytes(): number {
  for (const path of ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]) {
    try {
      const value = Number(readFileSync(path, "utf8").trim());
      if (Number.isFinite(value) && value > 0) return value;
    } catch {
      // Not this version of cgroups.
    }
  }
  return Number.POSITIVE_INFINITY;
}

/** Looks at the machine. */
export function thisMachine(): Machine {
  return {
    os: OS[process.platform] ?? "linux",
    arch: process.arch,
    hostname: hostname().slice(0, 253),
    memoryMb: Math.floor(Math.min(totalmem(), cgroupMemoryBytes()) / (1024 * 1024)),
    cpu: availableParallelism() * 1_000,
  };
}
