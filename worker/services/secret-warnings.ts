import type { SecretUse } from "../../contracts/operations/admin.ts";
import type { Context } from "../context.ts";
import { resolveSecrets } from "../secrets/resolve.ts";

/** A place in a spec that names a secret, and the use that the place asks for. */
export interface NamedSecret {
  field: string;
  name: string;
  use: SecretUse;
}

const storedOf = (ctx: Context, named: readonly NamedSecret[]) =>
  resolveSecrets(
    ctx.env,
    ctx.config,
    ctx.store,
    ctx.principal.workspace,
    named.map(({ name }) => name),
  );

/** Names that nobody has stored. */
export async function missingSecrets(ctx: Context, named: readonly NamedSecret[]): Promise<string[]> {
  const stored = await storedOf(ctx, named);
  return [...new Set(named.map(({ name }) => name))].filter((name) => !stored.has(name));
}

/** Secrets whose use is not the one their place in the spec needs: what names them would be refused. */
export async function misusedSecrets(ctx: Context, named: readonly NamedSecret[]): Promise<string[]> {
  const stored = await storedOf(ctx, named);
  return named.flatMap(({ field, name, use }) => {
    const actual = stored.get(name);
    if (!actual || actual.use === use) return [];
    return [
      `secret '${name}' has use '${actual.use ?? "none"}', but ${field} needs one of use '${use}'; an admin stores it again`,
    ];
  });
}
