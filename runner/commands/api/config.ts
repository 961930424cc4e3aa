import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import * as z from "zod";
import type { CliContext } from "./context.ts";

const Login = z.object({ apiUrl: z.string(), apiKey: z.string(), workspace: z.string().nullable().optional() });
export type Login = z.infer<typeof Login>;

/** Where the login is kept: the user's XDG configuration folder. */
export function configPath(env: CliContext["env"]): string {
  return join(env.XDG_CONFIG_HOME || join(env.HOME || homedir(), ".config"), "everdict", "login.json");
}

/** The stored login, or null when there is none that can be read. */
export function readLogin(env: CliContext["env"]): Login | null {
  try {
    return Login.parse(JSON.parse(readFileSync(configPath(env), "utf8")));
  } catch {
    return null;
  }
}

/** Stores a login, whole or not at all, readable by its user only. */
export function writeLogin(env: CliContext["env"], login: Login): string {
  const path = configPath(env);
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const fresh = `${path}.${process.pid}.new`;
  writeFileSync(fresh, `${JSON.stringify(login, null, 2)}\n`, { mode: 0o600 });
  chmodSync(fresh, 0o600);
  renameSync(fresh, path);
  return path;
}
