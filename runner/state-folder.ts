import { createHash, randomBytes } from "node:crypto";
import { chmodSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import * as z from "zod";
import { isSameProcess, startTimeOf } from "./executors/processes.ts";

const Pairing = z.object({ apiUrl: z.string(), token: z.string() });
type Pairing = z.infer<typeof Pairing>;
const Instance = z.object({ pid: z.number(), startTime: z.string().nullable() });

/** Where the CLI keeps its state unless told otherwise: EVERDICT_STATE_DIR, or the user's state directory. */
export function defaultStateDir(env: NodeJS.ProcessEnv): string {
  const base = env.XDG_STATE_HOME ?? join(homedir(), ".local", "state");
  return env.EVERDICT_STATE_DIR ?? join(base, "everdict");
}

/** The runner's own folder, readable by its user only: machine id, tokens by control plane, live instances. */
export class StateFolder {
  readonly dir: string;

  constructor(dir: string) {
    this.dir = dir;
    for (const part of ["", "pairings", "instances"]) mkdirSync(join(dir, part), { recursive: true, mode: 0o700 });
    chmodSync(dir, 0o700);
  }

  /** Random id of this machine; made once. */
  machineId(): string {
    const path = join(this.dir, "machine-id");
    try {
      const id = readFileSync(path, "utf8").trim();
      if (id !== "") return id;
    } catch {
      // Made below.
    }
    const id = `m-${randomBytes(16).toString("hex")}`;
    this.#write(path, `${id}\n`);
    return id;
  }

  /** Keeps the token for this control plane, in a file that only its user can read. */
  storeToken(apiUrl: string, token: string): void {
    this.#write(this.#pairingPath(apiUrl), JSON.stringify({ apiUrl, token } satisfies Pairing));
  }

  /** The token for a control plane, or null. */
  token(apiUrl: string): string | null {
    return this.#readPairing(this.#pairingPath(apiUrl))?.token ?? null;
  }

  /** Addresses of the control planes this machine is paired with. */
  pairedWith(): string[] {
    const dir = join(this.dir, "pairings");
    const pairings = readdirSync(dir).map((name) => this.#readPairing(join(dir, name)));
    return pairings.flatMap((pairing) => (pairing ? [pairing.apiUrl] : []));
  }

  /** Notes that this process works under an instance id, so that another can tell whether it still lives. */
  registerInstance(instanceId: string): void {
    this.#write(
      this.#instancePath(instanceId),
      JSON.stringify({ pid: process.pid, startTime: startTimeOf(process.pid) }),
    );
  }

  unregisterInstance(instanceId: string): void {
    rmSync(this.#instancePath(instanceId), { force: true });
  }

  /** Whether the process of an instance lives; notes of dead ones are removed. */
  isAlive(instanceId: string): boolean {
    try {
      const { pid, startTime } = Instance.parse(JSON.parse(readFileSync(this.#instancePath(instanceId), "utf8")));
      if (isSameProcess(pid, startTime)) return true;
    } catch {
      return false;
    }
    this.unregisterInstance(instanceId);
    return false;
  }

  #readPairing(path: string): Pairing | null {
    try {
      return Pairing.parse(JSON.parse(readFileSync(path, "utf8")));
    } catch {
      return null;
    }
  }

  #pairingPath(apiUrl: string): string {
    const digest = createHash("sha256").update(apiUrl.replace(/\/+$/, "")).digest("hex").slice(0, 16);
    return join(this.dir, "pairings", `${digest}.json`);
  }

  #instancePath(instanceId: string): string {
    return join(this.dir, "instances", `${instanceId.replace(/[^a-zA-Z0-9-]/g, "")}.json`);
  }

  /** Written whole or not at all. */
  #write(path: string, text: string): void {
    const fresh = `${path}.${process.pid}.new`;
    writeFileSync(fresh, text, { mode: 0o600 });
    renameSync(fresh, path);
  }
}
