import * as z from "zod";

/** Upper bounds shared by every schema; a list or string without one is a defect. */
export const LIMITS = {
  textChars: 4_000,
  taskBytes: 100 * 1024,
  casePayloadBytes: 512 * 1024,
  jobBytes: 768 * 1024,
  datasetCases: 10_000,
  datasetBytes: 16 * 1024 * 1024,
  tags: 20,
  tagChars: 60,
  secretBytes: 16 * 1024,
  jobSecretsBytes: 48 * 1024,
  envEntries: 100,
  gradersPerCase: 32,
  pageMax: 200,
  pageDefault: 50,
} as const;

/** The fallback owner of registry entries that every workspace may read; only operators write there. */
export const SHARED_OWNER = "_shared";

export const WorkspaceId = z
  .string()
  .max(63)
  .regex(/^[a-z0-9](-?[a-z0-9]){0,38}$/, "must be lower-case letters, digits and single hyphens, at most 39 characters")
  .describe("Workspace id: the tenant that owns things and pays for them");

const RESERVED_IDS = new Set(["auto", "latest"]);

export const RegistryId = z
  .string()
  .max(63)
  .regex(
    /^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$/,
    "must be 1 to 63 lower-case letters, digits, '.', '_' or '-', starting and ending with a letter or digit",
  )
  .refine((id) => !id.startsWith("self") && !RESERVED_IDS.has(id), "'self…', 'auto' and 'latest' are reserved names")
  .describe("Registry id, unique in its workspace for its kind");

const SEMVER =
  /^(0|[1-9]\d{0,9})\.(0|[1-9]\d{0,9})\.(0|[1-9]\d{0,9})(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+[0-9a-zA-Z.-]{1,40})?$/;

export const Version = z
  .string()
  .max(80)
  .regex(SEMVER, "must be a semantic version such as 1.0.0")
  .describe("Semantic version; immutable once registered");

export const VersionRef = z
  .union([z.literal("latest"), Version])
  .describe("A version, or 'latest' for the highest one by semver precedence");

export const SecretName = z
  .string()
  .max(128)
  .regex(/^[A-Za-z][A-Za-z0-9_-]{0,127}$/, "must be the NAME of a secret: a letter, then letters, digits, '_' or '-'")
  .describe("Name of a stored secret, never its value");

export const EnvName = z
  .string()
  .max(128)
  .regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, "must be an environment variable name")
  .describe("Environment variable name");

export const ImageRef = z
  .string()
  .max(255)
  .regex(/^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,254}$/, "must be a container image reference such as busybox:1.36")
  .describe("Container image reference");

export const Tags = z
  .array(z.string().min(1).max(LIMITS.tagChars))
  .max(LIMITS.tags)
  .describe("Free labels, at most 20 of at most 60 characters");

/** `run_` + 26 characters of lower-case Crockford base32 (a ULID): time-ordered, fit for cluster names. */
export type IdKind = "run" | "sc" | "key" | "rnr" | "rly" | "req" | "aud";
const SEPARATOR: Record<IdKind, string> = {
  run: "_",
  sc: "_",
  key: "_",
  rnr: "-",
  rly: "-",
  req: "_",
  aud: "_",
};

const CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz";

/**
 * A generated id: prefix, then 48 bits of milliseconds and 80 random bits in lower-case base32.
 * @param kind what it names
 * @param nowMs epoch milliseconds
 * @param random at least 10 random bytes
 */
export function formatId(kind: IdKind, nowMs: number, random: Uint8Array): string {
  let time = "";
  let rest = nowMs;
  for (let i = 0; i < 10; i++) {
    time = CROCKFORD.charAt(rest % 32) + time;
    rest = Math.floor(rest / 32);
  }
  let tail = "";
  let bits = 0;
  let value = 0;
  for (const byte of random.subarray(0, 10)) {
    value = (value << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      tail += CROCKFORD.charAt((value >> bits) & 31);
    }
    value &= 0xff;
  }
  return `${kind}${SEPARATOR[kind]}${time}${tail}`;
}

const idOf = (kind: IdKind, what: string) =>
  z
    .string()
    .max(40)
    .regex(new RegExp(`^${kind}${SEPARATOR[kind]}[0-9a-z]{1,32}$`), `must be a ${what} id: ${kind}${SEPARATOR[kind]}…`)
    .describe(`Id of a ${what}`);

export const RunId = idOf("run", "run");
export const ScorecardId = idOf("sc", "scorecard");
export const ApiKeyId = idOf("key", "API key");
export const RelayId = idOf("rly", "relay");
export const RunnerId = idOf("rnr", "runner");

/**
 * External name of an attempt: `evd-<object hash 8>-<run id base32>-<epoch>`, at most 63 characters, so that it is a
 * valid Kubernetes and Nomad name and two attempts never share one.
 */
export function attemptName(objectHash8: string, runId: string, epoch: number): string {
  return `evd-${objectHash8}-${runId.slice(runId.indexOf("_") + 1)}-${epoch}`;
}
