import type { FakeCluster } from "./cluster.ts";
import { type Answer, text } from "./model.ts";

const VARIABLE_BYTES = 65_536;

/** /v1/var/:path (N 43, 44). */
export function serveVariable(
  cluster: FakeCluster,
  method: string,
  path: string,
  query: URLSearchParams,
  items: Record<string, string> | undefined,
): Answer {
  const found = cluster.variables.get(path);
  const row = found && {
    Path: path,
    Items: found.items,
    ModifyIndex: found.modifyIndex,
    ModifyTime: found.modifyMs * 1e6,
  };
  const cas = query.get("cas");
  if (method === "GET") return row ? { status: 200, body: row } : text(404, "variable not found");
  if (cas !== null && Number(cas) !== (found?.modifyIndex ?? 0))
    return { status: 409, body: row ?? { Path: path, Items: null } };
  if (method === "DELETE") {
    if (found) cluster.bump();
    cluster.variables.delete(path);
    return { status: 204, body: "" };
  }
  if (!/^[a-zA-Z0-9\-_~/]{1,128}$/.test(path)) return text(400, `RPC Error:: 400,invalid path "${path}"`);
  if (
    Object.entries(items ?? {})
      .flat()
      .join("").length > VARIABLE_BYTES
  )
    return text(400, "RPC Error:: 400,variables are limited to 64KiB in total size");
  const modifyIndex = cluster.bump();
  cluster.variables.set(path, { items: items ?? {}, modifyIndex, modifyMs: cluster.clock.now() });
  // A task that waits for its variable starts about a second after the write (N 43).
  for (const alloc of cluster.allocations) cluster.begin(alloc);
  return { status: 200, body: { Path: path, Items: items ?? {}, ModifyIndex: modifyIndex } };
}
