import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "smol-toml";
import * as z from "zod";
import { WorkspaceId } from "../../contracts/names.ts";
import { VARIABLES } from "../../worker/environment.ts";
import { ROOT } from "../environment.ts";

/** What is wrong with a deployment, in words for its operator. */
export class DeployError extends Error {}

const Name = z
  .string()
  .max(58)
  .regex(/^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/, "must be lower-case letters, digits and hyphens, at most 58 characters");
const SecretVariable = z
  .string()
  .max(100)
  .regex(
    /^(EVERDICT_[A-Z0-9_]+|SECRET_[A-Z0-9_]+)$/,
    "must be EVERDICT_… or SECRET_<NAME>, in capital letters, digits and underscores",
  );
/** Made by the first deploy when nobody gives them; never settings. */
export const MADE_SECRETS = ["EVERDICT_SIGNING_KEY", "EVERDICT_VAULT_KEYS"] as const;
const SECRET_VARS = new Set<string>([...MADE_SECRETS, "EVERDICT_OIDC_CLIENT_SECRET", "EVERDICT_METRICS_TOKEN"]);

/** Cookies, redirects and pairing commands are built on it: what stands behind the host would be lost or doubled. */
const PublicUrl = z
  .string()
  .max(300)
  .refine((url) => url.startsWith("https://") && URL.canParse(url) && new URL(url).origin === url, {
    error:
      "must be an https origin such as https://evals.acme.dev, in lower case, without credentials, path (not even '/'), query or fragment",
  });

const KNOWN = new Set<string>(VARIABLES);
/** SECRET_<NAME> are the operator's to name; what begins with EVERDICT_ and is not ours would be set and never read. */
const known = (variable: string): boolean => !variable.startsWith("EVERDICT_") || KNOWN.has(variable);

const Settings = z.strictObject({
  name: Name.optional(),
  publicUrl: PublicUrl.optional(),
  databaseId: z.uuid("must be the id of a D1 database").optional(),
  logBucket: z
    .string()
    .regex(/^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$/, "must be the name of an R2 bucket")
    .optional(),
  secrets: z.array(SecretVariable).max(90).default([]),
  vars: z.record(z.string().regex(/^EVERDICT_[A-Z0-9_]+$/, "must be EVERDICT_…"), z.string().max(5_000)).default({}),
});

export interface Deployment extends z.infer<typeof Settings> {
  workspace: string;
  name: string;
  /** Where the settings stand. */
  file: string;
}

/** @throws DeployError naming the file and the field */
function settingsOf(workspace: string, file: string, text: string): Deployment {
  let raw: unknown;
  try {
    raw = parse(text);
  } catch (error) {
    throw new DeployError(
      `${file} is not TOML: ${error instanceof Error ? error.message.split("\n")[0] : "unreadable"}`,
    );
  }
  const parsed = Settings.safeParse(raw);
  if (!parsed.success) {
    const said = parsed.error.issues.map(({ path, message }) => `${path.join(".") || "the file"}: ${message}`);
    throw new DeployError(`${file} cannot be used: ${said.join("; ")}`);
  }
  const strange = [
    ...parsed.data.secrets.filter((name) => !known(name)).map((name) => `secrets: ${name}`),
    ...Object.keys(parsed.data.vars)
      .filter((name) => !known(name))
      .map((name) => `vars.${name}`),
  ];
  if (strange.length > 0)
    throw new DeployError(
      `${file} cannot be used: ${strange.join(", ")}: no variable of Everdict Edge; there are ${VARIABLES.join(", ")}`,
    );
  for (const variable of Object.keys(parsed.data.vars)) {
    if (variable === "EVERDICT_ENV")
      throw new DeployError(`${file} cannot be used: vars.EVERDICT_ENV: a deployment is never a development server`);
    if (variable === "EVERDICT_PUBLIC_URL")
      throw new DeployError(`${file} cannot be used: vars.EVERDICT_PUBLIC_URL: it follows from publicUrl`);
    if (SECRET_VARS.has(variable))
      throw new DeployError(
        `${file} cannot be used: vars.${variable}: it is a secret; name it in secrets and give its value by the environment`,
      );
  }
  return { ...parsed.data, workspace, file, name: parsed.data.name ?? `everdict-edge-${workspace}` };
}

/** @throws DeployError when the name is not one of a workspace */
export function checkWorkspace(workspace: string): void {
  const parsed = WorkspaceId.safeParse(workspace);
  if (!parsed.success)
    throw new DeployError(`'${workspace}' is no workspace id: it ${parsed.error.issues[0]?.message ?? "is refused"}`);
}

/**
 * Every deployment that has a file, and perhaps a new one.
 * @throws DeployError when a file cannot be used, or two deployments would be one Worker, database or bucket
 */
export async function readDeployments(folder = join(ROOT, "deployments"), asked?: string): Promise<Deployment[]> {
  const names = (await readdir(folder).catch(() => [])).filter((name) => name.endsWith(".toml")).sort();
  const found: Deployment[] = [];
  for (const name of names) {
    const workspace = name.slice(0, -".toml".length);
    checkWorkspace(workspace);
    found.push(settingsOf(workspace, join(folder, name), await readFile(join(folder, name), "utf8")));
  }
  if (asked !== undefined && !found.some(({ workspace }) => workspace === asked))
    found.push(settingsOf(asked, join(folder, `${asked}.toml`), ""));
  for (const key of ["name", "databaseId", "logBucket", "publicUrl"] as const) {
    const owners = new Map<string, string>();
    for (const deployment of found) {
      const value = deployment[key];
      if (value === undefined) continue;
      const other = owners.get(value);
      if (other !== undefined)
        throw new DeployError(
          `workspaces '${other}' and '${deployment.workspace}' would share the ${key} '${value}'; give one of them another in deployments/`,
        );
      owners.set(value, deployment.workspace);
    }
  }
  return found;
}
