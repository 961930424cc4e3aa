import type { RelayHello, RelayReset } from "../../contracts/relay-protocol.ts";
import { RELAY_PROTOCOL } from "../../contracts/relay-protocol.ts";
import type { Logger } from "../log.ts";
import { RUNNER_VERSION } from "../version.ts";
import { Outbox } from "./outbox.ts";
import { RelaySocket } from "./socket.ts";
import { Streams } from "./streams.ts";
import type { Allowed, Targets } from "./targets.ts";

export interface RelayOptions {
  apiUrl: string;
  token: string;
  instanceId: string;
  hostname: string;
  allowed: Allowed;
  targets: Targets;
  log: Logger;
}

const STATUS_MS = 250;
const SHOWN = { contexts: 100, hosts: 100, exec: 50 };

/** One relay process. */
export class RelayProcess {
  readonly #options: RelayOptions;
  readonly #socket: RelaySocket;
  readonly #streams: Streams;
  #requests = 0;
  #lastError = "";

  constructor(options: RelayOptions) {
    this.#options = options;
    const { apiUrl, token, targets, log } = options;
    const outbox = new Outbox();
    this.#streams = new Streams({
      outbox,
      carry: (open, body, signal) => {
        this.#requests++;
        return targets.carry(open, body, signal);
      },
      failed: (open, reset) => this.#failed(open?.target.kind ?? null, reset),
    });
    this.#socket = new RelaySocket({ apiUrl, token, hello: this.#hello(), streams: this.#streams, outbox, log });
  }

  /** Works until closed. @throws FatalError when the token was revoked, replaced, or the protocol is too old */
  async run(): Promise<void> {
    const status = setInterval(() => this.#options.log.status(this.#status()), STATUS_MS);
    try {
      await this.#socket.run();
    } finally {
      clearInterval(status);
      this.#socket.close();
      await this.#options.targets.close();
    }
  }

  close(): void {
    this.#socket.close();
  }

  #hello(): RelayHello {
    const { instanceId, hostname, allowed } = this.#options;
    return {
      type: "hello",
      protocol: RELAY_PROTOCOL,
      instanceId,
      version: RUNNER_VERSION,
      hostname,
      // For showing; what is allowed beyond is allowed all the same.
      contexts: allowed.contexts.slice(0, SHOWN.contexts),
      hosts: allowed.hosts.slice(0, SHOWN.hosts),
      exec: allowed.exec.slice(0, SHOWN.exec),
    };
  }

  #failed(target: string | null, { code, message }: RelayReset): void {
    if (code === "kubeconfig-wanted" || code === "cancelled") return;
    this.#lastError = message;
    this.#options.log.warn("a request came to nothing", { target, code, message });
  }

  #status(): string {
    const reach = this.#socket.online ? `connected, ${this.#streams.size} in flight` : "cannot reach the control plane";
    const error = this.#lastError === "" ? "" : `, last error: ${this.#lastError.slice(0, 80)}`;
    return this.#options.log.live ? `${reach}, ${this.#requests} requests${error}` : (reach.split(",")[0] ?? "");
  }
}
