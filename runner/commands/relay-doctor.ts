import { lookup } from "node:dns/promises";
import { accessSync, constants, readFileSync } from "node:fs";
import { connect, isIP } from "node:net";
import { delimiter, isAbsolute, join } from "node:path";
import type { Command } from "commander";
import { EnvHttpProxyAgent, fetch } from "undici";
import type { RelayOpen, RelayTarget } from "../../contracts/relay-protocol.ts";
import { givenPair, readToken } from "../pairing.ts";
import { hostGlob } from "../relay/host-policy.ts";
import { Refusal } from "../relay/refusal.ts";
import { Targets } from "../relay/targets.ts";
import { FatalError } from "../session.ts";
import type { StateFolder } from "../state-folder.ts";
import { type AllowFlags, allowedBy, allowOptions, type RelayFlags, relayState } from "./relay.ts";
import { chooseApiUrl } from "./runner.ts";
import { stdout } from "./stdout.ts";

/** One thing that was looked at. */
export interface RelayFinding {
  what: string;
  ok: boolean;
  detail: string;
  fix: string | null;
}

const CALL_MS = 10_000;
const good = (what: string, detail: string): RelayFinding => ({ what, ok: true, detail, fix: null });
const bad = (what: string, detail: string, fix: string): RelayFinding => ({ what, ok: false, detail, fix });

/** Adds `everdict relay doctor`: what this relay would reach, and why not. */
export function addRelayDoctorCommand(relay: Command): void {
  const command = relay
    .command("doctor")
    .description("Show what this relay would reach with these options, and how to get what is missing")
    .option("--json", "print JSON");
  allowOptions(command).action(async (_flags: unknown, self: Command) => {
    const flags = self.optsWithGlobals<RelayFlags & { json?: boolean }>();
    const findings = await examineRelay(flags);
    stdout().write(flags.json ? `${JSON.stringify({ findings }, null, 2)}\n` : table(findings));
    process.exitCode = findings.every(({ ok }) => ok) ? 0 : 1;
  });
}

/** Looks at everything once. Contexts are asked for their version with their own credential. */
export async function examineRelay(flags: RelayFlags): Promise<RelayFinding[]> {
  return [
    ...(await controlPlanes(flags)),
    ...(await contexts(flags)),
    ...(await Promise.all(flags.allowHost.map(host))),
    ...flags.allowExec.map(binary),
    ...flags.caFile.map(authority),
    ...nothing(flags),
  ];
}

async function controlPlanes(flags: RelayFlags): Promise<RelayFinding[]> {
  const state = relayState(flags.stateDir);
  const given = givenPair(flags.pair, process.env);
  if (given !== null) return [await givenToken(flags, state, given)];
  const urls = flags.apiUrl ? [flags.apiUrl] : state.pairedWith();
  if (urls.length === 0)
    return [bad("pairing", "this machine is no relay yet", "everdict relay --pair <token> --api-url <url>")];
  return Promise.all(
    urls.map(async (url) => {
      const what = `control plane ${url}`;
      const token = state.token(url);
      if (token === null) return bad(what, "not paired with it", "everdict relay --pair <token>");
      return tried(what, url, token, "paired, knows the token");
    }),
  );
}

/** A token that is given is the one that is tried, and it is stored nowhere: the relay itself does that. */
async function givenToken(flags: RelayFlags, state: StateFolder, given: string): Promise<RelayFinding> {
  // On Linux the title stands where the arguments were, and with them the token.
  if (flags.pair !== undefined) process.title = "everdict relay doctor";
  let token: string;
  let url: string;
  try {
    token = readToken(given, "relay");
    url = chooseApiUrl(flags, state);
  } catch (error) {
    if (!(error instanceof FatalError)) throw error;
    return bad("pairing", error.message, "everdict relay doctor --pair <token> --api-url <url>");
  }
  return tried(`control plane ${url}`, url, token, "knows the token that was given");
}

/** Shows the token without an upgrade, which takes no running relay's place. */
async function tried(what: string, url: string, token: string, known: string): Promise<RelayFinding> {
  const dispatcher = new EnvHttpProxyAgent();
  try {
    const { status } = await fetch(`${url.replace(/\/+$/, "")}/relay/connect`, {
      headers: { authorization: `Bearer ${token}` },
      redirect: "manual",
      dispatcher,
      signal: AbortSignal.timeout(CALL_MS),
    });
    if (status === 426) return good(what, known);
    if (status === 401 || status === 403)
      return bad(
        what,
        "the token was revoked or is not known",
        "pair again: create a relay (POST /workspace/relays) and start everdict relay --pair <token>",
      );
    return bad(what, `answers HTTP ${status}`, "check --api-url");
  } catch {
    return bad(what, "does not answer", "check --api-url, the network and HTTPS_PROXY");
  } finally {
    await dispatcher.destroy();
  }
}

async function contexts(flags: RelayFlags): Promise<RelayFinding[]> {
  if (flags.allowContext.length === 0) return [];
  const tempDir = join(relayState(flags.stateDir).dir, "plugins", `doctor-${process.pid}`);
  let targets: Targets;
  try {
    targets = new Targets({ allowed: allowedBy(flags), kubeconfig: flags.kubeconfig, tempDir });
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error);
    return flags.allowContext.map((name) => bad(`context ${name}`, `not tried: ${detail}`, "correct the option first"));
  }
  try {
    return await Promise.all(flags.allowContext.map((name) => context(targets, name)));
  } finally {
    await targets.close();
  }
}

async function context(targets: Targets, name: string): Promise<RelayFinding> {
  const what = `context ${name}`;
  const target: RelayTarget = { kind: "context", context: name };
  const open: RelayOpen = {
    method: "GET",
    path: "/version",
    headers: {},
    target,
    deadlineMs: CALL_MS,
    body: false,
    first: false,
  };
  try {
    const { head, body } = await targets.carry(open, null, AbortSignal.timeout(CALL_MS));
    body.destroy();
    if (head.status === 200) return good(what, "its API answers and knows the credential");
    return bad(what, `its API answers HTTP ${head.status}`, `kubectl --context ${name} version`);
  } catch (error) {
    const detail = error instanceof Refusal ? error.message : "its API does not answer";
    return bad(what, detail, `kubectl --context ${name} version`);
  }
}

async function host(text: string): Promise<RelayFinding> {
  const what = `host ${text}`;
  let glob: ReturnType<typeof hostGlob>;
  try {
    glob = hostGlob(text);
  } catch (error) {
    return bad(what, error instanceof Error ? error.message : "not a host", "correct --allow-host");
  }
  if (glob.host.startsWith("*.")) return good(what, "any name below it");
  const name = glob.host.replace(/^\[|\]$/g, "");
  try {
    const address = isIP(name) ? name : (await lookup(name)).address;
    if (glob.port === null) return good(what, isIP(name) ? "any port" : `resolves to ${address}, any port`);
    return (await connects(address, Number(glob.port)))
      ? good(what, "takes connections")
      : bad(what, "takes no connection", "check the address, the port and the network of this machine");
  } catch {
    return bad(what, "does not resolve", "check the name and this machine's DNS");
  }
}

function connects(address: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: address, port, timeout: CALL_MS });
    const over = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.once("connect", () => over(true));
    socket.once("error", () => over(false));
    socket.once("timeout", () => over(false));
  });
}

function binary(name: string): RelayFinding {
  const what = `exec ${name}`;
  const paths = isAbsolute(name) ? [name] : (process.env.PATH ?? "").split(delimiter).map((dir) => join(dir, name));
  for (const path of paths) {
    try {
      accessSync(path, constants.X_OK);
      return good(what, path);
    } catch {
      // Not here.
    }
  }
  return bad(what, isAbsolute(name) ? "cannot be run" : "not in PATH", "install it, or correct --allow-exec");
}

function authority(path: string): RelayFinding {
  const what = `authority ${path}`;
  try {
    if (readFileSync(path, "utf8").includes("-----BEGIN CERTIFICATE-----")) return good(what, "readable");
    return bad(what, "holds no PEM certificate", "correct --ca-file");
  } catch {
    return bad(what, "cannot be read", "correct --ca-file");
  }
}

function nothing(flags: AllowFlags): RelayFinding[] {
  if (flags.allowContext.length + flags.allowHost.length > 0) return [];
  return [bad("allowed", "nothing: this relay would refuse every request", "add --allow-context or --allow-host")];
}

/** One line a finding, and one with the fix below what is wrong. */
export function table(findings: readonly RelayFinding[]): string {
  const width = Math.max(...findings.map(({ what }) => what.length));
  const lines = findings.flatMap(({ what, ok, detail, fix }) => [
    `${ok ? "✓" : "✗"} ${what.padEnd(width)}  ${detail}`,
    ...(fix === null ? [] : [`  ${" ".repeat(width)}  → ${fix}`]),
  ]);
  return `${lines.join("\n")}\n`;
}
