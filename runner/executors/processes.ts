import { readdirSync, readFileSync } from "node:fs";

/** Environment variable that marks every process of an attempt, whatever session it moved to. */
export const ATTEMPT_MARK = "EVD_ATTEMPT";

/**
 * When a process started, in clock ticks since boot: with the pid it names one process for good, which a pid alone does
 * not. @returns null when there is no such process, or no /proc
 */
export function startTimeOf(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The command's name is in parentheses and may hold anything; field 22 is counted from the last one.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? null;
  } catch {
    return null;
  }
}

/** Whether exactly this process lives. Without /proc (macOS) the pid must do. */
export function isSameProcess(pid: number, startTime: string | null): boolean {
  if (startTime !== null) return startTimeOf(pid) === startTime;
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Sends a signal to a process or, with a negative number, to a group; false when there is none. */
export function signal(target: number, name: NodeJS.Signals): boolean {
  try {
    process.kill(target, name);
    return true;
  } catch {
    return false;
  }
}

/** Processes that carry the mark of this attempt in their environment. Empty without /proc. */
export function markedProcesses(name: string): number[] {
  const wanted = `${ATTEMPT_MARK}=${name}`;
  const found: number[] = [];
  let entries: string[];
  try {
    entries = readdirSync("/proc");
  } catch {
    return found;
  }
  for (const entry of entries) {
    if (!/^\d+$/.test(entry) || Number(entry) === process.pid) continue;
    try {
      if (readFileSync(`/proc/${entry}/environ`, "latin1").split("\0").includes(wanted)) found.push(Number(entry));
    } catch {
      // Ended meanwhile, or another user's.
    }
  }
  return found;
}

/** Kills a process group and everything that carries the attempt's mark, until nothing new appears. */
export function killAttempt(name: string, group: number | null): void {
  if (group !== null) signal(-group, "SIGKILL");
  for (let round = 0; round < 5; round++) {
    const left = markedProcesses(name);
    if (left.length === 0) return;
    for (const pid of left) signal(pid, "SIGKILL");
  }
}
