import type { LeasedAttempt } from "../../contracts/runner-protocol.ts";
import { asRecord, type DockerEngine, EngineError } from "./docker-engine.ts";

/** A pull may take long, but not without end. */
const PULL_MS = 30 * 60_000;
/** Longest progress line that is looked at. */
const MAX_LINE = 64 * 1024;

/** The registry refused the pull, in its words. */
export class PullError extends Error {
  override readonly name = "PullError";
}

/** Splits a reference the way the engine wants it: a name without a tag or digest means `latest`. */
export function splitImage(image: string): { name: string; tag: string } {
  const at = image.indexOf("@");
  if (at > 0) return { name: image.slice(0, at), tag: image.slice(at + 1) };
  const colon = image.lastIndexOf(":");
  if (colon > image.lastIndexOf("/")) return { name: image.slice(0, colon), tag: image.slice(colon + 1) };
  return { name: image, tag: "latest" };
}

/** Whether the engine has the image. Present images are never pulled: they may have been built or imported here. */
export async function hasImage(engine: DockerEngine, image: string): Promise<boolean> {
  try {
    await engine.send("GET", `/images/${image}/json`);
    return true;
  } catch (error) {
    if (error instanceof EngineError && error.status === 404) return false;
    throw error;
  }
}

/**
 * Pulls an image.
 * @throws PullError with the registry's reason
 */
export async function pullImage(
  engine: DockerEngine,
  image: string,
  auth: LeasedAttempt["registryAuth"],
  signal: AbortSignal,
): Promise<void> {
  const { name, tag } = splitImage(image);
  const login = auth && { username: auth.username, password: auth.password, serveraddress: auth.host };
  const headers = login ? { "x-registry-auth": Buffer.from(JSON.stringify(login)).toString("base64url") } : {};
  try {
    const response = await engine.open("POST", "/images/create", {
      query: { fromImage: name, tag },
      headers,
      timeoutMs: PULL_MS,
      signal,
    });
    // The status is 200 before the pull begins; how it went stands in the last lines.
    let rest = "";
    for await (const part of response.body) {
      const lines = (rest + String(part)).split("\n");
      rest = (lines.pop() ?? "").slice(-MAX_LINE);
      for (const line of lines) checkLine(line);
    }
    checkLine(rest);
  } catch (error) {
    if (error instanceof EngineError) throw new PullError(error.message, { cause: error });
    throw error;
  }
}

function checkLine(line: string): void {
  let progress: unknown;
  try {
    progress = JSON.parse(line);
  } catch {
    return;
  }
  const { error } = asRecord(progress);
  if (typeof error === "string") throw new PullError(error);
}
