import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cloneScript } from "../../../worker/backends/nomad/clone-script.ts";
import { GitServer } from "../../runner/git-server.ts";

let server: GitServer;
const dirs: string[] = [];
beforeAll(async () => {
  server = await GitServer.start();
});
afterAll(() => {
  server.stop();
  for (const dir of dirs) rmSync(dir, { recursive: true, force: true });
});

/** Runs the prestart task's script as it stands, with a folder for the container's /tmp. */
async function clone(url: string, ref: string, credential?: string) {
  const dir = mkdtempSync(join(tmpdir(), "evd-clone-"));
  dirs.push(dir);
  const [target, words, script] = [join(dir, "source"), join(dir, "words"), join(dir, "clone.sh")];
  const text = cloneScript({ url: btoa(url), ref: btoa(ref), target: "@target@", words: "@words@" });
  const own = text.replaceAll("/tmp/", `${dir}/`).replaceAll("@target@", target).replaceAll("@words@", words);
  writeFileSync(script, own);
  const child = spawn("sh", [script], {
    env: { PATH: process.env.PATH ?? "", ...(credential === undefined ? {} : { EVD_GIT_CREDENTIAL: credential }) },
    stdio: "ignore",
  });
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, target, dir, words: existsSync(words) ? readFileSync(words, "utf8") : "" };
}

test.each([
  ["main", "two\n"],
  ["v1", "one\n"],
])("ref %s is cloned, and no word is left behind", async (ref, content) => {
  const { code, words, target } = await clone(server.url, ref);
  expect({ code, words }).toEqual({ code: 0, words: "" });
  expect(readFileSync(join(target, "a.txt"), "utf8")).toBe(content);
});

test("url and ref are data: nothing of them is run, no option is taken, nothing but a network is reached", async () => {
  const bait = join(tmpdir(), `evd-nomad-bait-${process.pid}`);
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

test("a ref that is not there fails with git's own words in the file that is read", async () => {
  const { code, words } = await clone(server.url, "nope");
  expect(code).not.toBe(0);
  expect(words).toMatch(/nope/);
});

test("a credential is in neither the clone nor the script that hands it to git", async () => {
  const { code, target, dir } = await clone(server.url, "main", "user:s3cret-value");
  expect(code).toBe(0);
  expect(readFileSync(join(target, ".git", "config"), "utf8")).not.toContain("s3cret");
  expect(readFileSync(join(dir, "askpass"), "utf8")).not.toContain("s3cret");
});
