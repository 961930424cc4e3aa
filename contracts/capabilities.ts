import * as z from "zod";
import { CAPABILITIES, type CapabilityName } from "./capability-names.ts";

export type Capability = CapabilityName;
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
