import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Entry, list, part, strings } from "./store.ts";

export interface ContainerEnd {
  exitCode: number;
  reason: string;
  message: string;
}

const MESSAGE_BYTES = 4_096;
const MEMORY_POLL_MS = 20;
const MIB = 1024 * 1024;

let lastNanoseconds = 0n;

/** RFC 3339 with nine digits; two lines may have the same one, and none is earlier than the one before. */
function stampNow(): string {
  const now = BigInt(Date.now()) * 1_000_000n + (process.hrtime.bigint() % 1_000_000n);
  lastNanoseconds = now > lastNanoseconds ? now : lastNanoseconds;
  const seconds = new Date(Number(lastNanoseconds / 1_000_000n)).toISOString().slice(0, 19);
  return `${seconds}.${String(lastNanoseconds % 1_000_000_000n).padStart(9, "0")}Z`;
}

/** One pod's main container as a process of this machine: mounts become directories, the memory limit is enforced. */
export class Container {
  readonly #child: ChildProcess;
  readonly #dir: string;
  readonly #limitBytes: number;
  readonly #fallback: boolean;
  readonly #graceMs: number;
  log = "";
  /** When each line began, as the runtime stamps them. */
  readonly stamps: string[] = [];
  #oom = false;
  readonly ended: Promise<ContainerEnd>;

  /** @param secretOf data of a Secret by name, decoded */
  constructor(pod: Entry, secretOf: (name: string) => Record<string, string>) {
    const spec = part(pod.body.spec);
    const main = part(list(spec.containers)[0]);
    this.#dir = mkdtempSync(join(tmpdir(), "fake-kubernetes-"));
    this.#limitBytes = Number.parseInt(String(part(main, "resources", "limits").memory), 10) * MIB;
    this.#fallback = main.terminationMessagePolicy === "FallbackToLogsOnError";
    this.#graceMs = Number(spec.terminationGracePeriodSeconds ?? 30) * 1_000;
    const places = this.#mount(spec, main, secretOf);
    const local = (text: string): string => {
      for (const [path, place] of places)
        if (text === path || text.startsWith(`${path}/`)) return place + text.slice(path.length);
      return text;
    };
    const env = Object.fromEntries(
      list(main.env).map((item) => {
        const { name, value, valueFrom } = part(item);
        const ref = part(valueFrom, "secretKeyRef");
        const text = value === undefined ? (secretOf(String(ref.name))[String(ref.key)] ?? "") : local(String(value));
        return [String(name), text.replaceAll("$$(", "$(")];
      }),
    );
    const [command = "/bin/sh", ...args] = list(main.command).map((word) => local(String(word)));
    this.#child = spawn(command, args, {
      cwd: this.#dir,
      env: { PATH: process.env.PATH ?? "/usr/bin:/bin", ...env },
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    const take = (chunk: Buffer): void => {
      const text = chunk.toString("utf8");
      const begun =
        (this.log === "" || this.log.endsWith("\n") ? "\n" : "") + (text.endsWith("\n") ? text.slice(0, -1) : text);
      for (const _ of begun.matchAll(/\n/g)) this.stamps.push(stampNow());
      this.log += text;
    };
    this.#child.stdout?.on("data", take);
    this.#child.stderr?.on("data", take);
    const watcher = setInterval(() => this.#enforceMemory(), MEMORY_POLL_MS);
    this.ended = new Promise((resolve) => {
      this.#child.once("close", (code, signal) => {
        clearInterval(watcher);
        resolve(this.#end(code ?? 128 + (signal === "SIGKILL" ? 9 : 15)));
      });
    });
  }

  /** TERM, then KILL after the pod's grace. */
  stop(): void {
    const { pid } = this.#child;
    if (pid === undefined) return;
    this.#signal(pid, "SIGTERM");
    setTimeout(() => {
      if (this.#child.exitCode === null && this.#child.signalCode === null)
        for (const each of descendants(pid)) this.#signal(each, "SIGKILL");
    }, this.#graceMs).unref();
  }

  /** Nothing of it stays. */
  dispose(): void {
    const { pid } = this.#child;
    if (pid !== undefined && this.#child.exitCode === null)
      for (const each of descendants(pid)) this.#signal(each, "SIGKILL");
    void this.ended.then(() => rmSync(this.#dir, { recursive: true, force: true }));
  }

  #mount(
    spec: Entry["body"],
    main: Entry["body"],
    secretOf: (name: string) => Record<string, string>,
  ): Map<string, string> {
    const termination = join(this.#dir, "termination-log");
    writeFileSync(termination, "");
    const places = new Map([[String(main.terminationMessagePath ?? "/dev/termination-log"), termination]]);
    const volumes = new Map(list(spec.volumes).map((volume) => [String(part(volume).name), part(volume)]));
    for (const item of list(main.volumeMounts)) {
      const { name, mountPath } = part(item);
      const place = join(this.#dir, String(name));
      mkdirSync(place);
      places.set(String(mountPath), place);
      const secret = part(volumes.get(String(name)), "secret");
      if (secret.secretName === undefined) continue;
      const data = secretOf(String(secret.secretName));
      for (const { key, path } of list(secret.items).map((it) => strings(it)))
        writeFileSync(join(place, String(path)), data[String(key)] ?? "");
    }
    return places;
  }

  #end(exitCode: number): ContainerEnd {
    let message = readFileSync(join(this.#dir, "termination-log"), "utf8").slice(0, MESSAGE_BYTES);
    if (message === "" && this.#fallback && exitCode !== 0)
      message = this.log.split("\n").slice(-80).join("\n").slice(-2_048);
    const reason = this.#oom ? "OOMKilled" : exitCode === 0 ? "Completed" : "Error";
    return { exitCode, reason, message };
  }

  #signal(pid: number, signal: NodeJS.Signals): void {
    try {
      process.kill(pid, signal);
    } catch {
      // It has gone already.
    }
  }

  /** As the kernel does: the largest process of the group goes. */
  #enforceMemory(): void {
    const { pid } = this.#child;
    if (pid === undefined || Number.isNaN(this.#limitBytes)) return;
    const sizes = descendants(pid).map((each) => ({ each, bytes: residentBytes(each) }));
    if (sizes.reduce((sum, { bytes }) => sum + bytes, 0) <= this.#limitBytes) return;
    const largest = sizes.reduce((a, b) => (b.bytes > a.bytes ? b : a));
    this.#oom = true;
    this.#signal(largest.each, "SIGKILL");
  }
}

/** A process and all below it. */
function descendants(root: number): number[] {
  const parents = new Map<number, number>();
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const fields = readFileSync(`/proc/${name}/stat`, "utf8")
        .replace(/^.*\) /s, "")
        .split(" ");
      parents.set(Number(name), Number(fields[1]));
    } catch {
      // It ended while we looked.
    }
  }
  const out = [root];
  for (let at = 0; at < out.length; at++) for (const [pid, parent] of parents) if (parent === out[at]) out.push(pid);
  return out;
}

/** Private pages only: what shells share is not charged twice. */
function residentBytes(pid: number): number {
  try {
    const [, resident = "0", shared = "0"] = readFileSync(`/proc/${pid}/statm`, "utf8").split(" ");
    return (Number(resident) - Number(shared)) * 4_096;
  } catch {
    return 0;
  }
}
