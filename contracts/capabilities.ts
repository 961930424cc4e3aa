import * as z from "zod";

/**
 * The closed capability vocabulary. Adding one is one line here; `linux` is implicit.
 * functional: can the work run at all; security: how it is contained; auth: whose login it uses.
 */
export const CAPABILITY_KINDS = {
  git: "functional",
  docker: "functional",
  browser: "functional",
  "computer-use": "functional",
  topology: "functional",
  "os-windows": "functional",
  "os-macos": "functional",
  gpu: "functional",
  sandbox: "security",
  "codex-login": "auth",
  "claude-login": "auth",
} as const;

export type Capability = keyof typeof CAPABILITY_KINDS;
export const CAPABILITIES = Object.keys(CAPABILITY_KINDS) as [Capability, ...Capability[]];
export const Capability = z.enum(CAPABILITIES).describe("Something a runtime or runner can do");
export const CapabilityList = z.array(Capability).max(CAPABILITIES.length).describe("Capabilities");

export const Os = z.enum(["linux", "windows", "macos"]).describe("Operating system");
export type Os = z.infer<typeof Os>;

export type GateVerdict = { ok: true } | { ok: false; missing: Capability[] };

/** Whether `advertised` covers `required`; the one gate that submit, dispatch, lease and the web share. */
export function functionalGate(required: Iterable<Capability>, advertised: Iterable<Capability>): GateVerdict {
  const have = new Set(advertised);
  const missing = [...new Set(required)].filter((capability) => !have.has(capability)).sort();
  return missing.length === 0 ? { ok: true } : { ok: false, missing };
}

/** The capability an operating system asks for; linux asks for none. */
export function osCapability(os: Os | undefined): Capability[] {
  return os === "windows" ? ["os-windows"] : os === "macos" ? ["os-macos"] : [];
}
