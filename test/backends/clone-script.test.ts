import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CLONE_DIR, CLONE_SCRIPT } from "../../worker/backends/k8s/clone-script.ts";
import { GitServer } from "../runner/git-server.ts";

let server: GitServer;
const dirs: string[] = [];
beforeAll(async () => {
  server = await GitServer.start();
});
afterAll(() => {
  server.stop();
  for (const dir of dirs) rmSync(dir, { recursive: true, force: true });
});

/** Runs the clone container's script as it stands, with its mounts as directories. */
async function clone(
  url: string,
  ref: string,
  credential = "",
): Promise<{ code: number | null; words: string; source: string }> {
  const dir = mkdtempSync(join(tmpdir(), "evd-clone-"));
  dirs.push(dir);
  const facts = join(dir, "clone");
  const evd = join(dir, "evd");
  for (const each of [facts, evd]) mkdirSync(each);
  writeFileSync(join(facts, "url"), url);
  writeFileSync(join(facts, "ref"), ref);
  writeFileSync(join(facts, "credential"), credential);
  writeFileSync(join(facts, "clone.sh"), CLONE_SCRIPT.replaceAll("/tmp/", `${dir}/`).replaceAll(CLONE_DIR, facts));
  const child = spawn("sh", [join(facts, "clone.sh")], {
    env: { PATH: process.env.PATH ?? "", EVD_DIR: evd },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let words = "";
  child.stderr.on("data", (chunk: Buffer) => {
    words += chunk.toString("utf8");
  });
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, words, source: join(evd, "source") };
}

test.each([
  ["main", "two\n"],
  ["v1", "one\n"],
])("ref %s is cloned and open to any user of the job's image", async (ref, content) => {
  const { code, words, source } = await clone(server.url, ref);
  expect({ code, words }).toEqual({ code: 0, words: "" });
  expect(readFileSync(join(source, "a.txt"), "utf8")).toBe(content);
});

test("text of url and ref is data: nothing of it is run, no option is taken", async () => {
  const bait = join(tmpdir(), `evd-bait-${process.pid}`);
  for (const [url, ref] of [
    [`${server.url}; touch ${bait}`, "main"],
    [server.url, `$(touch ${bait})`],
    [server.url, "--upload-pack=touch"],
    [`ext::sh -c touch% ${bait}`, "main"],
    ["file:///etc", "main"],
  ] as const)
    expect((await clone(url, ref)).code).not.toBe(0);
  expect(existsSync(bait)).toBe(false);
});

test("a ref that is not there fails in git's own words", async () => {
  const { code, words } = await clone(server.url, "nope");
  expect(code).not.toBe(0);
  expect(words).toMatch(/nope/);
});
