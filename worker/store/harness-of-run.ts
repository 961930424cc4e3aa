import { and, eq } from "drizzle-orm";
import { HarnessBody, HarnessSpec } from "../../contracts/harness.ts";
import type { Store } from "../context.ts";
import type { RunRow } from "./run-rows.ts";
import { registry } from "./schema.ts";

/** The harness of a stored run: kept with it when anonymous, else registered; null when it cannot be found. */
export async function harnessOf(store: Store, row: RunRow): Promise<HarnessSpec | HarnessBody | null> {
  if (row.harnessSpec !== null) return HarnessBody.parse(JSON.parse(row.harnessSpec));
  const stored = await store
    .select({ spec: registry.spec })
    .from(registry)
    .where(
      and(
        eq(registry.kind, "harness"),
        eq(registry.owner, row.harnessOwner ?? ""),
        eq(registry.id, row.harnessId),
        eq(registry.version, row.harnessVersion),
      ),
    )
    .get();
  return stored ? HarnessSpec.parse(JSON.parse(stored.spec)) : null;
}
