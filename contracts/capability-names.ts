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

export type CapabilityName = keyof typeof CAPABILITY_KINDS;
export const CAPABILITIES = Object.keys(CAPABILITY_KINDS) as [CapabilityName, ...CapabilityName[]];
