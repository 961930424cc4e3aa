import { RESULT_MARK } from "../../../contracts/job.ts";
import type { BackendAttempt, SeenUnit, WatchedUnit } from "../../../worker/backends/backend.ts";
import { NomadBackend } from "../../../worker/backends/nomad/backend.ts";
import { VirtualClock } from "../../support/fake-nomad/clock.ts";
import { FakeNomad, type FakeNomadOptions } from "../../support/fake-nomad/fake-nomad.ts";
import type { Ending, FakeAllocation } from "../../support/fake-nomad/model.ts";
import { type AttemptParts, attemptOf, watched } from "../attempts.ts";
import { nomadSpec } from "./fake-target.ts";

export const OWNER = { deployment: "prod", object: "7f3k2m9q" };
export const SECRET = "3e0f7c0a-6e6b-4a53-9a0b-5f5c7f2f9a11";
const OUTCOME_PATH = "/alloc/data/outcome";

/** The line a program writes: its Outcome behind mark and nonce. */
export const outcomeLine = (nonce: string, exit = 0, stdout = "hi"): string =>
  `${RESULT_MARK} ${nonce} ${btoa(`everdict 1\nexit ${exit}\nms 5\ntimeout 0\nnode +4\nbox1\nout ${stdout.length} +${stdout.length}\n${stdout}\nerr 0 +0\n\n`)}\n`;

export interface LabOptions extends Omit<FakeNomadOptions, "clock"> {
  spec?: Parameters<typeof nomadSpec>[0];
  rights?: readonly string[];
}

/** A backend before a fake Nomad, in virtual time; tasks end when a test says so. */
export class Lab {
  readonly clock = new VirtualClock();
  readonly nomad: FakeNomad;
  readonly backend: NomadBackend;
  readonly #spec: ReturnType<typeof nomadSpec>;

  constructor({ spec = {}, rights, ...options }: LabOptions = {}) {
    this.nomad = new FakeNomad({ ...options, clock: this.clock });
    this.nomad.addToken(SECRET, rights);
    this.#spec = nomadSpec(spec);
    this.backend = this.backendWith(SECRET);
  }

  backendWith(token: string | null, owner = OWNER): NomadBackend {
    const { clock } = this;
    return new NomadBackend({
      spec: this.#spec,
      owner,
      transport: this.nomad.transport(),
      token,
      now: () => clock.now(),
      sleep: (ms) => clock.wait(ms),
    });
  }

  /** A started attempt. */
  async started(parts: AttemptParts = {}): Promise<BackendAttempt> {
    const attempt = attemptOf(OWNER, parts);
    const answer = await this.backend.start(attempt);
    if (answer.kind !== "started") throw new Error(JSON.stringify(answer));
    return attempt;
  }

  /** The first allocation of an attempt. */
  allocation({ job }: BackendAttempt): FakeAllocation {
    const [alloc] = this.nomad.cluster.of(job.name);
    if (!alloc) throw new Error("not placed");
    return alloc;
  }

  /** Ends the task of an attempt, with an Outcome unless `exitCode` is the whole story. */
  end(attempt: BackendAttempt, ending: Partial<Ending> & { outcome?: string | null } = {}): void {
    const { outcome = outcomeLine(attempt.nonce), ...rest } = ending;
    const files = outcome === null ? {} : { [OUTCOME_PATH]: outcome };
    this.nomad.cluster.endTask(this.allocation(attempt), { exitCode: 0, files, ...rest });
  }

  /** One pass without a wait; the only unit's news. */
  async look(attempt: BackendAttempt, stopping = false): Promise<SeenUnit> {
    const sighting = await this.backend.observe([watched(attempt, stopping)], { waitMs: 0 });
    if (!sighting.ok) throw new Error(JSON.stringify(sighting.error));
    const [unit] = sighting.units;
    if (!unit) throw new Error("no news");
    return unit;
  }

  /** Requests made by `work`. */
  async requestsOf(work: () => Promise<unknown>): Promise<string[]> {
    const before = this.nomad.requests.length;
    await work();
    return this.nomad.requests.slice(before);
  }
}

export const unitOf = (attempt: BackendAttempt, stopping = false): WatchedUnit => watched(attempt, stopping);
