import { type ChildProcess, spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { Agent, fetch } from "undici";
import { createClient } from "../../contracts/client.ts";
import type { RelayState } from "../../contracts/relay.ts";
import type { RelayTarget } from "../../contracts/relay-protocol.ts";
import { ensureBuilt } from "../../scripts/build.ts";
import { childEnvironment, ROOT } from "../../scripts/environment.ts";
import type { Transport, TransportRequest } from "../../worker/backends/transport/transport.ts";
import type { Ask } from "../relay/worker.ts";
import { ended, until } from "./control-plane.ts";

const HOST = "127.0.0.1";

/** A real `everdict relay` process. */
export class RelayProcess {
  readonly folder: string;
  readonly apiUrl: string;
  readonly token: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  output = "";
  #child: ChildProcess | null = null;

  constructor(folder: string, apiUrl: string, token: string, args: readonly string[], env: NodeJS.ProcessEnv) {
    this.folder = folder;
    this.apiUrl = apiUrl;
    this.token = token;
    this.args = args;
    this.env = env;
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  get child(): ChildProcess | null {
    return this.#child;
  }

  /** Starts it and waits until it is connected. */
  async up(): Promise<void> {
    await this.launch();
    const seen = this.output.length;
    await until("the relay is connected", 20_000, async () => this.output.slice(seen).includes("relay connected"));
  }

  async launch(): Promise<void> {
    const args = [join(ROOT, "dist/everdict.mjs"), "relay", "--api-url", this.apiUrl, "--state-dir", this.folder];
    const child = spawn("node", [...args, ...this.args], {
      env: {
        ...childEnvironment(),
        KUBECONFIG: join(this.folder, "kubeconfig"),
        ...this.env,
        EVERDICT_PAIR: this.token,
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child = child;
    for (const stream of [child.stdout, child.stderr])
      stream?.on("data", (chunk: Buffer) => (this.output = (this.output + chunk.toString()).slice(-2_000_000)));
  }

  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<number | null> {
    const child = this.#child;
    this.#child = null;
    if (!child) return null;
    child.kill(signal);
    return ended(child);
  }

  async stop(): Promise<void> {
    await this.kill("SIGTERM");
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** A folder and a process for a token. */
export async function relayProcess(
  apiUrl: string,
  token: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<RelayProcess> {
  await ensureBuilt();
  const folder = await mkdtemp(join(tmpdir(), "everdict-relay-"));
  return new RelayProcess(folder, apiUrl, token, args, env);
}

/** Pairs a relay of a workspace at a control plane and starts it; a file `kubeconfig` that is put into its folder is its own. */
export async function startRelay(
  plane: { url: string },
  label: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  workspace?: string,
  prepare: (folder: string) => Promise<void> = async () => undefined,
): Promise<RelayProcess> {
  const client = createClient({ apiUrl: plane.url, workspace, token: undefined, fetch: globalThis.fetch });
  const { token } = await client.call("pair_relay", { body: { label } });
  const relay = await relayProcess(plane.url, token ?? "", args, env);
  await prepare(relay.folder);
  await relay.up();
  return relay;
}

/** An error that came out of the transport, as the lab's Worker tells it. */
export class CarryError extends Error {
  readonly code: string;
  readonly reason: string;
  readonly uncertain: boolean;

  constructor(facts: { message: string; code?: string; reason?: string; uncertain?: boolean }) {
    super(facts.message);
    this.code = facts.code ?? "";
    this.reason = facts.reason ?? "";
    this.uncertain = facts.uncertain ?? false;
  }
}

/** A transport whose requests may be given up in the middle: `abortMs` says when their signal fires. */
export interface LabTransport extends Transport {
  fetch(request: TransportRequest & { abortMs?: number }): ReturnType<Transport["fetch"]>;
}

/** The relay's object and transport in workerd, reached from this process; nothing of them is replaced. */
export class RelayLab {
  readonly url: string;
  readonly miniflare: Miniflare;
  readonly #folder: string;
  readonly #agent = new Agent({ connections: 256, headersTimeout: 0, bodyTimeout: 0 });

  private constructor(url: string, miniflare: Miniflare, folder: string) {
    this.url = url;
    this.miniflare = miniflare;
    this.#folder = folder;
  }

  static async open(): Promise<RelayLab> {
    const folder = await mkdtemp(join(tmpdir(), "everdict-relay-lab-"));
    const path = join(folder, "worker.mjs");
    await build({
      entryPoints: [join(ROOT, "test/relay/worker.ts")],
      outfile: path,
      bundle: true,
      format: "esm",
      target: "es2024",
      external: ["cloudflare:*", "node:*"],
      conditions: ["workerd", "worker", "browser"],
      logLevel: "error",
    });
    const port = 61_000 + Math.floor(Math.random() * 4_000);
    const miniflare = new Miniflare(
      convertV4MiniflareOptions({
        host: HOST,
        port: 0,
        cf: false,
        resourcePersistencePath: join(folder, "state"),
        workers: [
          {
            name: "lab",
            modulesRoot: folder,
            modules: [{ type: "ESModule", path }],
            compatibilityDate: "2026-11-01",
            compatibilityFlags: ["enable_request_signal"],
            durableObjects: { RELAY: { className: "Relay", useSQLite: true } },
            bindings: { EVERDICT_ENV: "dev" },
            unsafeDirectSockets: [{ host: HOST, port }],
          },
        ],
      }),
    );
    await miniflare.ready;
    const url = `http://${HOST}:${port}`;
    return new RelayLab(url, miniflare, folder);
  }

  /** Pairs a relay. @returns its token */
  async pair(id: string, label: string, workspace = "acme"): Promise<string> {
    const token = `rly_${id.slice(4)}.${randomBytes(32).toString("base64url")}`;
    const tokenHash = createHash("sha256").update(token).digest("hex");
    await this.#post("/pair", { id, label, workspace, tokenHash });
    return token;
  }

  async state(id: string, label = "lab"): Promise<RelayState & { words: string }> {
    // SAFETY: the lab's Worker answers the object's own state.
    return (await this.#post("/state", { id, label })) as RelayState & { words: string };
  }

  async revoke(id: string): Promise<void> {
    await this.#post("/revoke", { id, label: "" });
  }

  /** Requests through a relay, or directly when it is null. */
  transport(relay: Ask["relay"], address: string | null = null): LabTransport {
    return { fetch: (request) => this.#carry({ relay, address }, request) };
  }

  through(id: string, target: RelayTarget, kubeconfig?: string, workspace = "acme"): LabTransport {
    return this.transport({ id, label: "lab", workspace, target, ...(kubeconfig === undefined ? {} : { kubeconfig }) });
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
    await this.miniflare.dispose();
    await rm(this.#folder, { recursive: true, force: true });
  }

  async #carry(way: Pick<Ask, "relay" | "address">, request: TransportRequest & { abortMs?: number }) {
    const { signal, abortMs = null, ...rest } = request;
    const ask: Ask = { ...way, request: { ...rest, deadlineMs: request.deadlineMs ?? 60_000 }, abortMs };
    const answer = await fetch(`${this.url}/transport`, {
      method: "POST",
      body: JSON.stringify(ask),
      dispatcher: this.#agent,
      signal,
    });
    if (answer.status === 599) {
      // SAFETY: the lab's Worker answers errors in this shape.
      throw new CarryError((await answer.json()) as ConstructorParameters<typeof CarryError>[0]);
    }
    const head = answer.headers.get("x-headers");
    if (head === null) throw new Error(`the lab answered ${answer.status}: ${await answer.text()}`);
    // SAFETY: undici's stream is Node's web stream.
    const body = answer.body as unknown as ReadableStream<Uint8Array> | null;
    return { status: Number(answer.headers.get("x-status")), headers: new Headers(JSON.parse(head)), body };
  }

  async #post(path: string, body: unknown): Promise<unknown> {
    const answer = await fetch(`${this.url}${path}`, {
      method: "POST",
      body: JSON.stringify(body),
      dispatcher: this.#agent,
    });
    if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${await answer.text()}`);
    return answer.json();
  }
}
