import type { Failure } from "../../contracts/run.ts";
import { EngineUnreachable } from "./docker-engine.ts";
import { diskFull, failure, isDiskFull, lacksCapability } from "./failures.ts";

/** The image cannot be had: absent, private, or its registry refuses or does not answer. */
export function imageUnavailable(unit: string, image: string, reason: string): Failure {
  if (isDiskFull(reason)) return diskFull(unit, reason);
  // The registry's own trouble heals by itself; a name or a permission does not.
  const passing =
    /timeout|timed out|connection (refused|reset)|temporary failure|toomanyrequests|too many requests|\b50[0234]\b|no such host|EOF/i;
  const retryable = passing.test(reason);
  return failure(unit, {
    stage: "install",
    class: retryable ? "infra" : "config",
    code: "IMAGE_UNAVAILABLE",
    message: `the image '${image}' cannot be pulled: ${reason}; check its name, and imagePullSecret if it is private`,
    retryable,
    events: [reason],
  });
}

/** The engine does not answer. */
export function dockerUnavailable(unit: string, reason: string): Failure {
  return failure(unit, {
    stage: "dispatch",
    class: "infra",
    code: "DOCKER_UNAVAILABLE",
    message: `${reason}; start the docker engine on this machine`,
    retryable: true,
  });
}

/** Somebody else removed the container. */
export function containerGone(unit: string, reason: string): Failure {
  return failure(unit, {
    stage: "run",
    class: "infra",
    code: "CONTAINER_GONE",
    message: `the container was removed while it ran: ${reason}`,
    retryable: true,
  });
}

/** Memory ran out and took the program with it. */
export function oomKilled(unit: string, memoryMb: number | null, logTail: string): Failure {
  const limit = memoryMb === null ? "the machine's memory" : `its limit of ${memoryMb} MiB`;
  return failure(unit, {
    stage: "run",
    class: "config",
    code: "OOM_KILLED",
    message: `memory ran out at ${limit}; raise resources.memoryMb of the case or harness`,
    retryable: false,
    logTail,
  });
}

/** The engine refused to create or start the container; judged by its words. */
export function startRefused(unit: string, image: string, error: unknown): Failure {
  if (error instanceof EngineUnreachable) return dockerUnavailable(unit, error.message);
  const reason = error instanceof Error ? error.message : String(error);
  if (isDiskFull(error)) return diskFull(unit, reason);
  if (/no such image/i.test(reason)) return imageUnavailable(unit, image, reason);
  if (/could not select device driver|nvidia/i.test(reason)) return lacksCapability(unit, "gpu", reason);
  const config = (code: string, message: string): Failure =>
    failure(unit, { stage: "install", class: "config", code, message, retryable: false, events: [reason] });
  if (/\/bin\/sh.*(no such file|not found)|(no such file|not found).*\/bin\/sh/is.test(reason))
    return config(
      "IMAGE_LACKS_SHELL",
      `the image '${image}' has no /bin/sh, which every job needs; use one with a shell`,
    );
  if (/exec format error|does not match the (detected|specified)/i.test(reason))
    return config("IMAGE_WRONG_PLATFORM", `the image '${image}' is for another platform: ${reason}`);
  if (/minimum memory limit/i.test(reason)) return config("MEMORY_TOO_SMALL", `${reason}; raise resources.memoryMb`);
  return failure(unit, {
    stage: "dispatch",
    class: "infra",
    code: "START_FAILED",
    message: `the docker engine did not start the container: ${reason}`,
    retryable: true,
    events: [reason],
  });
}
