import { type ChildProcess, spawn } from "node:child_process";
import {
  accessSync,
  constants,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";
import * as z from "zod";
import { isSameProcess, startTimeOf } from "../executors/processes.ts";
import { Refusal } from "./refusal.ts";

/** Credential plugins may look at a browser login's cache or call a cloud; kubectl waits for ever. */
const PLUGIN_MS = 30_000;
const OUTPUT_BYTES = 256 * 1024;

export const ExecSpec = z.object({
  apiVersion: z.string().max(100),
  command: z.string().min(1).max(1_000),
  args: z.array(z.string().max(4_000)).max(100).nullish(),
  env: z
    .array(z.object({ name: z.string().max(200), value: z.string().max(8_000) }))
    .max(100)
    .nullish(),
  provideClusterInfo: z.boolean().nullish(),
  interactiveMode: z.string().max(40).nullish(),
});
export type ExecSpec = z.infer<typeof ExecSpec>;

const VERSIONS = new Set(["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"]);

const ExecCredential = z.object({
  apiVersion: z.string(),
  kind: z.literal("ExecCredential"),
  status: z.object({
    token: z
      .string()
      .max(64 * 1024)
      .regex(/^[\x21-\x7e]+$/)
      .optional(),
    clientCertificateData: z.string().optional(),
    clientKeyData: z.string().optional(),
    expirationTimestamp: z.string().optional(),
  }),
});

/** What a plugin gave. */
export interface PluginCredential {
  token: string | null;
  certificate: { cert: string; key: string } | null;
  /** Epoch ms; null when it does not say. */
  expiresAt: number | null;
}

/** Variables of a plugin that a text from outside may set: none that loads code, finds files or leads elsewhere. */
const TENANT_VARIABLE =
  /^(AWS_(PROFILE|REGION|DEFAULT_REGION|STS_REGIONAL_ENDPOINTS)|AAD_(LOGIN_METHOD|ENVIRONMENT_NAME|SERVICE_PRINCIPAL_CLIENT_ID)|AZURE_(CLIENT_ID|TENANT_ID|SUBSCRIPTION_ID)|CLOUDSDK_(CORE_PROJECT|CORE_ACCOUNT|ACTIVE_CONFIG_NAME|COMPUTE_REGION|COMPUTE_ZONE)|USE_GKE_GCLOUD_AUTH_PLUGIN)$/;
/** Variables of this process that no plugin gets. */
const OWN_VARIABLE = /^(EVERDICT_|NODE_OPTIONS$|NODE_EXTRA_CA_CERTS$|npm_)/;

/** Tools that do more than give credentials: words that must stand among their arguments, in this order and together. */
const ONLY_AS: Readonly<Record<string, readonly string[]>> = {
  aws: ["eks", "get-token"],
  gcloud: ["config", "config-helper"],
  kubelogin: ["get-token"],
};

export interface PluginRun {
  spec: ExecSpec;
  /** Of whose text the command is; only the operator's own may run what is not listed. */
  source: "own" | "uploaded";
  /** The cluster part of KUBERNETES_EXEC_INFO. */
  cluster: Readonly<Record<string, unknown>>;
}

interface Running {
  child: ChildProcess;
  dir: string;
  /** Says which process works in the folder, for who finds it after a kill. */
  note: string;
}

const Note = z.object({ pid: z.number().int().min(2), startTime: z.string().nullable() });

/**
 * Removes what killed relays left: their plugins' processes and folders.
 * @param dir with one folder a relay process
 * @param isAlive whether the process of an instance lives
 * @returns names of the instances
 */
export function sweepPlugins(dir: string, isAlive: (instanceId: string) => boolean): string[] {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const dead = readdirSync(dir).filter((name) => !isAlive(name));
  for (const name of dead) {
    for (const file of readdirSync(join(dir, name)).filter((found) => found.endsWith(".pid")))
      endNoted(join(dir, name, file));
    rmSync(join(dir, name), { recursive: true, force: true });
  }
  return dead;
}

function endNoted(path: string): void {
  try {
    const { pid, startTime } = Note.parse(JSON.parse(readFileSync(path, "utf8")));
    if (isSameProcess(pid, startTime)) process.kill(-pid, "SIGKILL");
  } catch {
    // It was not noted to the end, or has ended.
  }
}

/** Runs credential plugins: only what the operator listed, bounded in time and output, with a folder that goes with it. */
export class ExecPlugins {
  readonly #allowed: readonly string[];
  readonly #dir: string;
  readonly #timeoutMs: number;
  readonly #running = new Set<Running>();

  /**
   * @param allowed names or absolute paths of binaries
   * @param dir of this process alone, for temporary files
   */
  constructor(allowed: readonly string[], dir: string, timeoutMs = PLUGIN_MS) {
    this.#timeoutMs = timeoutMs;
    this.#allowed = allowed;
    this.#dir = dir;
    mkdirSync(dir, { recursive: true, mode: 0o700 });
  }

  /** @throws Refusal in words without anything that the plugin printed, as that may hold a token */
  async run({ spec, source, cluster }: PluginRun): Promise<PluginCredential> {
    if (!VERSIONS.has(spec.apiVersion)) {
      throw misconfigured(
        `exec plugins of ${spec.apiVersion.slice(0, 60)} are not supported; use client.authentication.k8s.io/v1 or v1beta1`,
      );
    }
    if (spec.interactiveMode === "Always")
      throw misconfigured("an exec plugin with interactiveMode Always cannot run: nobody sits at a relay");
    const binary = source === "own" ? spec.command : this.#binaryOf(spec);
    const info = {
      apiVersion: spec.apiVersion,
      kind: "ExecCredential",
      spec: { interactive: false, ...(spec.provideClusterInfo ? { cluster } : {}) },
    };
    const output = await this.#spawn(binary, spec, {
      ...environment(spec, source),
      KUBERNETES_EXEC_INFO: JSON.stringify(info),
    });
    return credentialIn(output, spec);
  }

  /** Ends what runs and removes its files. */
  close(): void {
    for (const running of this.#running) this.#end(running);
    rmSync(this.#dir, { recursive: true, force: true });
  }

  #binaryOf(spec: ExecSpec): string {
    const { command } = spec;
    const shown = command.slice(0, 100);
    if (!this.#allowed.includes(command)) {
      throw new Refusal(
        "refused",
        `the kubeconfig runs '${shown}', which is not allowed on this relay; its operator adds --allow-exec ${shown}`,
      );
    }
    const name = command.slice(command.lastIndexOf("/") + 1);
    const needed = ONLY_AS[name];
    if (needed && !isPart(needed, spec.args ?? [])) {
      throw new Refusal("refused", `'${name}' may run only as '${name} ${needed.join(" ")}' on a relay`);
    }
    if (isAbsolute(command)) return command;
    const found = (process.env.PATH ?? "")
      .split(delimiter)
      .map((dir) => join(dir, command))
      .find(isExecutable);
    if (command.includes("/") || found === undefined)
      throw misconfigured(`'${shown}' is allowed on this relay, but is not in its PATH`);
    return found;
  }

  #spawn(binary: string, spec: ExecSpec, env: NodeJS.ProcessEnv): Promise<string> {
    const dir = mkdtempSync(join(this.#dir, "plugin-"));
    const name = binary.slice(binary.lastIndexOf("/") + 1).slice(0, 60);
    return new Promise((resolve, reject) => {
      const child = spawn(binary, spec.args ?? [], {
        cwd: dir,
        env: { ...env, TMPDIR: dir, TMP: dir, TEMP: dir },
        stdio: ["ignore", "pipe", "ignore"],
        // A group of its own: what it starts ends with it.
        detached: true,
      });
      const running = { child, dir, note: `${dir}.pid` };
      this.#running.add(running);
      if (child.pid !== undefined) {
        const note = { pid: child.pid, startTime: startTimeOf(child.pid) };
        writeFileSync(running.note, JSON.stringify(note), { mode: 0o600 });
      }
      const parts: Buffer[] = [];
      let bytes = 0;
      let wrong = "";
      const stop = (words: string): void => {
        wrong = words;
        this.#end(running);
      };
      const timer = setTimeout(() => stop(`gave no credential within ${this.#timeoutMs / 1_000} s`), this.#timeoutMs);
      child.stdout.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > OUTPUT_BYTES) stop(`printed more than ${OUTPUT_BYTES} bytes`);
        else parts.push(chunk);
      });
      const over = (error: Error | null, code: number | null, signal: NodeJS.Signals | null): void => {
        clearTimeout(timer);
        this.#end(running);
        if (wrong !== "") reject(misconfigured(`the exec plugin '${name}' ${wrong}`));
        else if (error) reject(misconfigured(`the exec plugin '${name}' could not be started`));
        else if (code !== 0)
          reject(misconfigured(`the exec plugin '${name}' ended with ${signal ?? `exit status ${code}`}`));
        else resolve(Buffer.concat(parts).toString("utf8"));
      };
      child.once("error", (error) => over(error, null, null));
      child.once("close", (code, signal) => over(null, code, signal));
    });
  }

  #end(running: Running): void {
    if (!this.#running.delete(running)) return;
    const { child, dir, note } = running;
    if (child.pid !== undefined) {
      try {
        process.kill(-child.pid, "SIGKILL");
      } catch {
        // The whole group has ended.
      }
    }
    for (const path of [dir, note]) rmSync(path, { recursive: true, force: true });
  }
}

const misconfigured = (message: string): Refusal => new Refusal("misconfigured", message);

function isPart(words: readonly string[], args: readonly string[]): boolean {
  return args.some((_, at) => words.every((word, index) => args[at + index] === word));
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function environment(spec: ExecSpec, source: "own" | "uploaded"): NodeJS.ProcessEnv {
  const base = Object.entries(process.env).filter(([name]) => !OWN_VARIABLE.test(name));
  const asked = (spec.env ?? []).filter(({ name }) => source === "own" || TENANT_VARIABLE.test(name));
  return { ...Object.fromEntries(base), ...Object.fromEntries(asked.map(({ name, value }) => [name, value])) };
}

function credentialIn(output: string, spec: ExecSpec): PluginCredential {
  let raw: unknown;
  try {
    raw = JSON.parse(output);
  } catch {
    throw misconfigured("the exec plugin did not print JSON");
  }
  const parsed = ExecCredential.safeParse(raw);
  if (!parsed.success || parsed.data.apiVersion !== spec.apiVersion)
    throw misconfigured(`the exec plugin did not print an ExecCredential of ${spec.apiVersion}`);
  const { token, clientCertificateData: cert, clientKeyData: key, expirationTimestamp } = parsed.data.status;
  if (token === undefined && (cert === undefined || key === undefined))
    throw misconfigured("the exec plugin gave neither a token nor a client certificate with its key");
  const expiresAt = expirationTimestamp === undefined ? null : Date.parse(expirationTimestamp);
  if (expiresAt !== null && !(expiresAt > Date.now()))
    throw misconfigured("the exec plugin gave a credential that has expired; is this machine's clock right?");
  return {
    token: token ?? null,
    certificate: cert !== undefined && key !== undefined ? { cert, key } : null,
    expiresAt,
  };
}
