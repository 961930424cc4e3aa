import type { Cluster, KubeConfig, User } from "@kubernetes/client-node";
import { parseDocument } from "yaml";
import * as z from "zod";
import { ExecSpec } from "./exec-plugin.ts";
import { Refusal } from "./refusal.ts";

/** A kubeconfig with hundreds of clusters is not what a runtime names. */
const MAX_ENTRIES = 100;
const MAX_TEXT = 256 * 1024;

const Text = z.string().max(64 * 1024);
const Name = z.string().min(1).max(253);

const UploadedCluster = z.object({
  server: z.string().max(500),
  "certificate-authority-data": Text.nullish(),
  "tls-server-name": z.string().max(253).nullish(),
  "insecure-skip-tls-verify": z.boolean().nullish(),
  "proxy-url": z.string().max(500).nullish(),
});
const UploadedUser = z.object({
  "client-certificate-data": Text.nullish(),
  "client-key-data": Text.nullish(),
  token: z
    .string()
    .max(64 * 1024)
    .regex(/^[\x21-\x7e]*$/, "must be one line")
    .nullish(),
  username: z.string().max(300).nullish(),
  password: z.string().max(16_384).nullish(),
  as: z
    .string()
    .max(300)
    .regex(/^[\x20-\x7e]*$/)
    .nullish(),
  exec: ExecSpec.nullish(),
});
const list = <T extends z.ZodType>(item: T) => z.array(item).max(MAX_ENTRIES).default([]);
const Uploaded = z.object({
  "current-context": z.string().max(253).nullish(),
  clusters: list(z.object({ name: Name, cluster: UploadedCluster })),
  users: list(z.object({ name: Name, user: UploadedUser.nullish().transform((user) => user ?? {}) })),
  contexts: list(
    z.object({
      name: Name,
      context: z.object({
        cluster: Name,
        user: Name.nullish().transform((user) => user ?? ""),
        namespace: Name.nullish(),
      }),
    }),
  ),
});

/** Fields that would read files of the relay's machine, or run what is no exec plugin, and what to give instead. */
const FORBIDDEN: Readonly<Record<string, string>> = {
  "certificate-authority": "give certificate-authority-data",
  "client-certificate": "give client-certificate-data",
  "client-key": "give client-key-data",
  "token-file": "give token",
  tokenFile: "give token",
  "auth-provider": "give an exec plugin or a token",
};

/**
 * A kubeconfig that came from outside. It is read here into known fields only, so that nothing in it makes the library
 * open a file or start a program.
 * @throws Refusal in words without anything of its text but names
 */
export async function parseUploaded(text: string): Promise<KubeConfig> {
  const wrong = (message: string): Refusal => new Refusal("misconfigured", `the kubeconfig ${message}`);
  if (text.length > MAX_TEXT) throw wrong(`is larger than ${MAX_TEXT} characters`);
  let raw: unknown;
  try {
    const document = parseDocument(text, { merge: false, prettyErrors: false, logLevel: "silent" });
    if (document.errors.length > 0 || document.warnings.length > 0) throw new Error("not YAML");
    raw = document.toJS({ maxAliasCount: 20 });
  } catch {
    throw wrong("is not readable YAML");
  }
  for (const [kind, inner] of [
    ["clusters", "cluster"],
    ["users", "user"],
  ] as const) {
    for (const { name, fields } of entriesOf(raw, kind, inner)) {
      for (const field of Object.keys(fields)) {
        const fix = FORBIDDEN[field];
        if (fix !== undefined && fields[field] != null)
          throw wrong(`names a file or program in ${kind} '${name}': ${field}; ${fix} instead`);
      }
    }
  }
  const parsed = Uploaded.safeParse(raw);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw wrong(`is not one: ${issue?.path.join(".") ?? ""} ${issue?.message ?? ""}`.slice(0, 300));
  }
  const { KubeConfig } = await import("./kubeconfig-library.ts");
  const config = new KubeConfig();
  // JSON is YAML: the library sees exactly what was checked.
  config.loadFromString(JSON.stringify(parsed.data));
  return config;
}

function entriesOf(raw: unknown, kind: string, inner: string): { name: string; fields: Record<string, unknown> }[] {
  const items = typeof raw === "object" && raw !== null && kind in raw ? Reflect.get(raw, kind) : [];
  if (!Array.isArray(items)) return [];
  return items.slice(0, MAX_ENTRIES).flatMap((item: unknown) => {
    if (typeof item !== "object" || item === null || !(inner in item)) return [];
    const fields: unknown = Reflect.get(item, inner);
    const name = "name" in item ? String(item.name).slice(0, 100) : "";
    return typeof fields === "object" && fields !== null ? [{ name, fields: { ...fields } }] : [];
  });
}

/** This machine's own kubeconfig. @throws Refusal when it cannot be read */
export async function loadOwn(path: string | undefined): Promise<KubeConfig> {
  const { KubeConfig } = await import("./kubeconfig-library.ts");
  const config = new KubeConfig();
  try {
    if (path === undefined) config.loadFromDefault({ onInvalidEntry: "filter" });
    else config.loadFromFile(path, { onInvalidEntry: "filter" });
  } catch (error) {
    throw new Refusal("misconfigured", "the relay's own kubeconfig cannot be read", error);
  }
  return config;
}

/** Cluster and user of a context. @throws Refusal when it names what is not there */
export function entryOf(
  config: KubeConfig,
  context: string | null,
): { context: string; cluster: Cluster; user: User | null } {
  const name = context ?? config.getCurrentContext() ?? "";
  if (name === "")
    throw new Refusal("misconfigured", "the kubeconfig has no current-context; give 'context' in the runtime");
  const found = config.getContextObject(name);
  const cluster = found ? config.getCluster(found.cluster) : null;
  if (!found || !cluster)
    throw new Refusal("misconfigured", `the kubeconfig has no context '${name.slice(0, 100)}' with a cluster`);
  return { context: name, cluster, user: config.getUser(found.user) };
}
