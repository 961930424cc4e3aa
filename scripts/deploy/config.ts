import { parse, stringify, type TomlTable } from "smol-toml";
import type { Deployment } from "./settings.ts";

/** Stands in a configuration that is only looked at, for a database that is not made yet. */
export const NO_DATABASE = "00000000-0000-0000-0000-000000000000";

const tables = (value: unknown): TomlTable[] => (Array.isArray(value) ? (value as TomlTable[]) : []);

/** Address of the dashboard and of the API behind it. */
export const publicUrlOf = ({ publicUrl, name }: Deployment): string => publicUrl ?? `https://${name}.pages.dev`;

/**
 * The configuration of one deployment's Worker: the project's own, with this deployment's names. Everything is repeated,
 * so nothing depends on what wrangler's environments inherit.
 * @param base text of wrangler.toml
 * @param paths root: folder of the checkout, absolute
 */
export function workerConfig(base: string, deployment: Deployment, paths: { root: string }): string {
  const config = parse(base);
  const rooted = (path: unknown) => `${paths.root}/${String(path)}`;
  const { name } = deployment;
  return stringify({
    ...config,
    name,
    main: rooted(config.main),
    workers_dev: true,
    vars: { ...deployment.vars, EVERDICT_PUBLIC_URL: publicUrlOf(deployment) },
    d1_databases: tables(config.d1_databases).map((database) => ({
      ...database,
      database_name: name,
      database_id: deployment.databaseId ?? NO_DATABASE,
      migrations_dir: rooted(database.migrations_dir),
    })),
    services: tables(config.services).map((service) => ({ ...service, service: name })),
    assets: { ...(config.assets as TomlTable), directory: rooted((config.assets as TomlTable).directory) },
    ...(deployment.logBucket === undefined
      ? {}
      : { r2_buckets: [{ binding: "LOGS", bucket_name: deployment.logBucket }] }),
  });
}

/** The configuration of its Pages project: the web build, and a script that hands the rest to the Worker. */
export function pagesConfig(base: string, deployment: Deployment): string {
  const { compatibility_date } = parse(base);
  return stringify({
    name: deployment.name,
    compatibility_date: compatibility_date ?? "",
    pages_build_output_dir: "./site",
    services: [{ binding: "API", service: deployment.name }],
  });
}

/** The settings with the id of the database that was just made; nothing else changes, and the operator's words stay. */
export function withDatabase(text: string, id: string): string {
  const before = parse(text);
  if (before.databaseId === id) return text;
  if (before.databaseId !== undefined) throw new Error("the settings name another database already");
  // A key of the top level stands before the first table.
  return `databaseId = ${JSON.stringify(id)}\n${text}`;
}
