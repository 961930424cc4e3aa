import { EverdictError } from "../../contracts/errors.ts";
import { sha256 } from "../auth/digest.ts";
import { storeOf } from "../context.ts";
import { configOf, type Env, schedulerOf } from "../environment.ts";
import { activeObjects } from "../store/schema.ts";

/** Objects asked for one scrape. */
const MAX_OBJECTS = 200;

/**
 * Prometheus text. Gauges are read from the objects themselves: counters in an isolate would lie.
 * @throws EverdictError UNAUTHENTICATED without the metrics token (in development none is needed)
 */
export async function metrics(env: Env, request: Request): Promise<Response> {
  const config = configOf(env);
  const token = env.EVERDICT_METRICS_TOKEN;
  const given = /^Bearer (\S{1,500})$/.exec(request.headers.get("authorization") ?? "")?.[1] ?? "";
  if (!(config.dev && !token) && (!token || (await sha256(given)) !== (await sha256(token)))) {
    throw new EverdictError("UNAUTHENTICATED", "metrics need 'Authorization: Bearer' with EVERDICT_METRICS_TOKEN");
  }
  const rows = await storeOf(env).select().from(activeObjects).limit(MAX_OBJECTS).all();
  const lines: string[] = [];
  const values = await Promise.all(
    rows
      .filter(({ kind }) => kind === "scheduler")
      .map(async ({ name }) => ({ name, gauges: await schedulerOf(env, name).gauges() })),
  );
  const names = [...new Set(values.flatMap(({ gauges }) => Object.keys(gauges)))].sort();
  for (const name of names) {
    lines.push(`# TYPE ${name} ${name.endsWith("_total") ? "counter" : "gauge"}`);
    for (const item of values) {
      const value = item.gauges[name];
      if (value !== undefined) lines.push(`${name}{object=${JSON.stringify(item.name)}} ${value}`);
    }
  }
  return new Response(`${lines.join("\n")}\n`, {
    headers: { "content-type": "text/plain; version=0.0.4", "cache-control": "no-store" },
  });
}
