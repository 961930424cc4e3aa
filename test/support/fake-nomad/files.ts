import type { FakeCluster } from "./cluster.ts";
import { type Answer, type FakeAllocation, text } from "./model.ts";

/** Why a client cannot serve anything of an allocation; the four meanings of a 404 (N 16). */
function unserved(cluster: FakeCluster, id: string): Answer | FakeAllocation {
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id))
    return text(500, "alloc lookup failed: index error: UUID must be 36 characters");
  const alloc = cluster.allocations.find((one) => one.id === id);
  if (!alloc) return text(404, `Unknown allocation "${id}"`);
  if (cluster.nodes.get(alloc.node)?.alive !== true) return text(404, "No path to node");
  if (alloc.collected) return text(404, `state for allocation ${id} not found on client`);
  return alloc;
}

const isAnswer = (value: Answer | FakeAllocation): value is Answer => "status" in value;

/** Paths of files: /v1/client/fs/{stat,cat,logs}/:allocation. */
export function serveFiles(cluster: FakeCluster, verb: string, id: string, query: URLSearchParams): Answer {
  const alloc = unserved(cluster, id);
  if (isAnswer(alloc)) return alloc;
  if (verb === "logs") return serveLogs(alloc, query);
  const path = query.get("path") ?? "";
  const content = alloc.files.get(path);
  if (content === undefined) {
    const words = path.includes("..")
      ? "Path escapes the alloc directory"
      : `stat /var/lib/nomad/alloc/${id}${path}: no such file or directory`;
    // fs/cat tells it as a body of a 200, fs/stat as a 404 (N 5).
    return { status: verb === "cat" ? 200 : 404, body: words };
  }
  if (verb === "cat") return { status: 200, body: content };
  const Name = path.slice(path.lastIndexOf("/") + 1);
  const Size = new TextEncoder().encode(content).length;
  return { status: 200, body: { Name, Size, IsDir: false, FileMode: "-rw-r--r--", ModTime: "2026-11-30T08:00:00Z" } };
}

function serveLogs(alloc: FakeAllocation, query: URLSearchParams): Answer {
  const task = query.get("task");
  const type = query.get("type");
  if (task === null) return text(400, "must provide task name");
  if (type !== "stdout" && type !== "stderr") return text(400, "must provide log type (stdout/stderr)");
  if (!alloc.tasks[task]) return text(400, `unknown task name "${task}"`);
  if (!alloc.tasks[task]?.Events.some(({ Type }) => Type === "Started"))
    return text(404, `task "${task}" not started yet. No logs available`);
  const offset = Number(query.get("offset") ?? 0);
  const whole = new TextEncoder().encode(alloc[type]);
  // From the end, an offset beyond the start gives everything (N 41). Offsets are bytes and may cut a character.
  const from = query.get("origin") === "end" ? Math.max(0, whole.length - (offset || whole.length)) : offset;
  return { status: 200, body: textIfWhole(whole.subarray(from)) };
}

function textIfWhole(bytes: Uint8Array): string | Uint8Array {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return bytes;
  }
}
