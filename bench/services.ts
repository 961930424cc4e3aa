import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sleep } from "./measure.ts";

export interface Service {
  port: number;
  stop(): Promise<void>;
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null)
    await new Promise((resolve) => child.once("close", resolve));
}

/** Redis on loopback with an append-only file. @param fsync "always" is the counterpart of what the others promise */
export async function startRedis(fsync: "always" | "everysec"): Promise<Service> {
  const folder = mkdtempSync(join(tmpdir(), "bench-redis-"));
  const port = 61_300;
  const child = spawn(
    "redis-server",
    [
      "--port",
      String(port),
      "--bind",
      "127.0.0.1",
      "--dir",
      folder,
      "--appendonly",
      "yes",
      "--appendfsync",
      fsync,
      "--save",
      "",
      "--maxmemory-policy",
      "noeviction",
    ],
    { stdio: "ignore" },
  );
  await sleep(800);
  return {
    port,
    async stop() {
      child.kill("SIGTERM");
      await ended(child);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function postgresFolder(): string {
  const root = "/usr/lib/postgresql";
  const version = existsSync(root) ? readdirSync(root).sort().at(-1) : undefined;
  if (!version) throw new Error("PostgreSQL is not installed: apt-get install postgresql");
  return join(root, version, "bin");
}

/** PostgreSQL on loopback with its defaults: fsync on, synchronous_commit on. It refuses to run as root, so it runs as its own user. */
export async function startPostgres(): Promise<Service> {
  const bin = postgresFolder();
  const folder = mkdtempSync(join(tmpdir(), "bench-postgres-"));
  const asRoot = process.getuid?.() === 0;
  const id = (flag: "-u" | "-g") => Number(execFileSync("id", [flag, "postgres"]).toString());
  const user = asRoot ? { uid: id("-u"), gid: id("-g") } : {};
  if (user.uid !== undefined && user.gid !== undefined) chownSync(folder, user.uid, user.gid);
  const data = join(folder, "data");
  const port = 61_301;
  execFileSync(join(bin, "initdb"), ["-D", data, "-U", "bench", "--auth=trust"], {
    ...user,
    cwd: folder,
    stdio: "ignore",
  });
  const child = spawn(
    join(bin, "postgres"),
    [
      "-D",
      data,
      "-p",
      String(port),
      "-c",
      "listen_addresses=127.0.0.1",
      "-c",
      `unix_socket_directories=${folder}`,
      "-c",
      "max_connections=500",
    ],
    { ...user, cwd: folder, stdio: "ignore" },
  );
  await sleep(2_000);
  return {
    port,
    async stop() {
      child.kill("SIGINT");
      await ended(child);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
