import { DockerEngine, EngineUnreachable, engineAddress } from "./executors/docker-engine.ts";

/** The client of this machine's docker engine, or why there cannot be one. */
export function openEngine(env: NodeJS.ProcessEnv): DockerEngine | { reason: string } {
  try {
    return new DockerEngine(engineAddress(env));
  } catch (error) {
    if (error instanceof EngineUnreachable) return { reason: error.message };
    throw error;
  }
}
