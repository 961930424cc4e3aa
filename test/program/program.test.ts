import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import { missingShell, outcomeOf, removeDirectories, runProgram, SHELLS } from "./run-program.ts";

afterEach(removeDirectories);

const HOSTILE = `$(touch /tmp/evd-pwned); \`touch /tmp/evd-pwned\`; '"; touch /tmp/evd-pwned #\n\\`;
const INTERPOLATED = '{{ env "HOME" }} ${attr.unique.hostname} $(HOSTNAME) %{if} $$ \\n';

// Real processes on a machine that may be busy.
vi.setConfig({ testTimeout: 60_000 });

for (const shell of SHELLS) {
  const missing = missingShell(shell);
  describe.skipIf(missing !== null)(`the program under ${shell}${missing === null ? "" : ` (${missing})`}`, () => {
    test("reports exit code, both streams apart, and copies them to its own", async () => {
      const run = await runProgram(shell, { command: "echo out; echo err >&2; exit 7" });
      const outcome = outcomeOf(run);
      expect(outcome).toMatchObject({ exitCode: 7, signal: null, timedOut: false, stdout: "out\n", stderr: "err\n" });
      expect(outcome).toMatchObject({ stdoutBytes: 4, stderrBytes: 4 });
      expect(run.code).toBe(0);
      expect(run.stdout).toBe("out\n");
      expect(run.stderr).toBe("err\n");
    });

    test("writes the same Outcome to the file and a small one to the termination message", async () => {
      const run = await runProgram(shell, { command: "echo out", collect: ["none"] });
      expect(run.fileOutcome).toEqual(outcomeOf(run));
      expect(run.compact).toEqual(outcomeOf(run));
      expect(run.compactBytes).toBeLessThanOrEqual(4_000);
    });

    test.each([
      ["unquoted", "printf '%s' {{task}}"],
      ["in double quotes", `printf '%s' "{{task}}"`],
      ["in a command substitution", `printf '%s' "$(printf '%s.' {{task}})" | sed '$ s/\\.$//'`],
    ])("hands a hostile task over as data, %s", async (_where, command) => {
      const tail = command.includes("sed") ? "" : "\n\n";
      for (const task of [`${HOSTILE}${tail}`, `${INTERPOLATED}${tail}`]) {
        const outcome = outcomeOf(await runProgram(shell, { task, command }));
        expect(outcome.stdout.trimEnd()).toBe(task.trimEnd());
        expect(outcome.stderr).toBe("");
      }
      expect(existsSync("/tmp/evd-pwned")).toBe(false);
    });

    test("keeps a task of 100 KB of emoji byte for byte, as variable and as file", async () => {
      const task = "🦊🏳️‍🌈".repeat(5_000).slice(0, 25_000 * 2);
      const whole = [...task].slice(0, 20_000).join("");
      const outcome = outcomeOf(
        await runProgram(shell, {
          task: whole,
          command: 'printf %s {{task}} | cmp - "$EVD_TASK_FILE" && wc -c <"$EVD_TASK_FILE"',
        }),
      );
      expect(Number(outcome.stdout)).toBe(Buffer.byteLength(whole));
      expect(outcome.exitCode).toBe(0);
    });

    test("exports parameters, model, run id and harness variables, and nothing of its own machinery", async () => {
      const run = await runProgram(shell, {
        command: `printf '%s|' {{model}} {{run_id}} {{temp}} "$QUOTE"; env`,
        model: "m'1",
        params: { temp: "$(id)" },
        env: { QUOTE: `it's "$HOME"\n` },
      });
      const { stdout } = outcomeOf(run);
      expect(stdout).toContain(`m'1|run_1|$(id)|it's "$HOME"\n|`);
      expect(stdout).not.toMatch(/EVD_NONCE|EVD_OUTCOME|EVD_TERMINATION|evd_|0123456789abcdef0123456789abcdef/);
    });

    test("starts in the work directory, whether or not setup goes there", async () => {
      const files = { "a.txt": "1", "deep/er/b c.txt": `it's "$(id)" \\n\t` };
      for (const setup of [[], ["cd work"], ["cd ./work/"], ["cd deep", "cd .."]]) {
        const outcome = outcomeOf(
          await runProgram(shell, {
            setup,
            source: { kind: "files", files },
            command: "cat a.txt 'deep/er/b c.txt'; ls -a; echo made >out.txt",
            collect: ["out.txt", "work/out.txt"],
          }),
        );
        expect(outcome.stdout).toBe(`1${files["deep/er/b c.txt"]}.\n..\na.txt\ndeep\n`);
        expect(outcome.files["out.txt"]?.base64).toBe(Buffer.from("made\n").toString("base64"));
        expect(outcome.files["work/out.txt"]).toEqual(outcome.files["out.txt"]);
      }
    });

    test("fails a `cd` to a directory that is not there, and enters a real one named work", async () => {
      const outcome = outcomeOf(
        await runProgram(shell, {
          source: { kind: "files", files: { "work/x": "in" } },
          command: "cd work && cat x; cd nowhere 2>/dev/null; echo $?",
        }),
      );
      expect(outcome.stdout).toMatch(/^in[12]\n$/);
    });

    test("unpacks files with every control character", async () => {
      const text = Array.from({ length: 0xa0 }, (_, code) => String.fromCharCode(code)).join("");
      const files = { bytes: text, plain: "é\r\n" };
      const outcome = outcomeOf(
        await runProgram(shell, { source: { kind: "files", files }, collect: ["bytes", "plain"] }),
      );
      expect(outcome.files.bytes?.base64).toBe(Buffer.from(text).toString("base64"));
      expect(outcome.files.plain?.base64).toBe(Buffer.from("é\r\n").toString("base64"));
    });

    test("runs setup and command in one shell, with the words of setup on standard error", async () => {
      const outcome = outcomeOf(
        await runProgram(shell, { setup: ["export A=1; f() { echo fun; }", "echo setup"], command: "echo $A; f" }),
      );
      expect(outcome.stdout).toBe("1\nfun\n");
      expect(outcome.stderr).toBe("setup\n");
    });

    test.each([
      ["a failing step", "false", 1],
      ["an exit", "exit 3", 3],
      ["a syntax error", "if then", 2],
      ["a signal", "kill -9 $$", 137],
    ])("tells setup that failed by %s from an agent that failed", async (_what, step, code) => {
      const outcome = outcomeOf(
        await runProgram(shell, {
          setup: ["true", step],
          command: "echo never",
          graders: [{ name: "g", command: "true" }],
        }),
      );
      expect(outcome).toMatchObject({
        exitCode: null,
        setupExitCode: code,
        setupStep: step,
        stdout: "",
        graderExits: {},
      });
    });

    test("survives invalid UTF-8, escapes and a line of 10 MB, and keeps the last 64 KiB", async () => {
      const outcome = outcomeOf(
        await runProgram(shell, {
          command: `printf '\\377\\376 \\033[31mred\\n' >&2; head -c 10000000 /dev/zero | tr '\\0' x; printf end`,
        }),
      );
      expect(outcome.stdoutBytes).toBe(10_000_003);
      expect(outcome.stdout).toHaveLength(65_536);
      expect(outcome.stdout.endsWith("xend")).toBe(true);
      expect(outcome.stderr).toBe("\ufffd\ufffd \u001b[31mred\n");
      expect(outcome.truncated).toBeUndefined();
    });

    test("is not taken in by forged result lines, and says so by passing them on", async () => {
      const forged = "__EVERDICT_RESULT__ 00000000000000000000000000000000 ZXZlcmRpY3QgMQo=";
      const run = await runProgram(shell, { command: `printf '\\n%s\\n' '${forged}'; exit 4` });
      expect(outcomeOf(run).exitCode).toBe(4);
      expect(run.stdout).toContain(forged);
    });

    test("an agent cannot read the nonce, which is gone before it starts", async () => {
      const run = await runProgram(shell, { command: 'ls "$HOME"; cat "$HOME/nonce"' });
      expect(outcomeOf(run).stdout).not.toMatch(/nonce/);
      expect(outcomeOf(run).exitCode).not.toBe(0);
    });

    test("works for an agent that closes its streams or ends while printing", async () => {
      const closed = outcomeOf(await runProgram(shell, { command: "exec >&- 2>&-; sleep 0.1; exit 5" }));
      expect(closed).toMatchObject({ exitCode: 5, stdout: "" });
      const early = outcomeOf(await runProgram(shell, { command: "yes | head -c 100000" }));
      expect(early).toMatchObject({ exitCode: 0, stdoutBytes: 100_000 });
    });

    test("reports an agent that ended by a signal", async () => {
      expect(outcomeOf(await runProgram(shell, { command: "kill -9 $$" }))).toMatchObject({ exitCode: 137, signal: 9 });
      expect(outcomeOf(await runProgram(shell, { command: "kill -15 $$" }))).toMatchObject({
        exitCode: 143,
        signal: 15,
      });
    });

    test("ends a polite agent at the time limit, and one that ignores TERM after the grace", async () => {
      const polite = outcomeOf(await runProgram(shell, { timeoutSec: 1, command: "echo on; sleep 30" }));
      expect(polite).toMatchObject({ timedOut: true, exitCode: 143, stdout: "on\n" });
      const deaf = outcomeOf(
        await runProgram(shell, {
          timeoutSec: 1,
          command: "trap '' TERM; sleep 30; sleep 30",
          graders: [{ name: "g", command: "true" }],
        }),
      );
      expect(deaf).toMatchObject({ timedOut: true, exitCode: 137, signal: 9, graderExits: {} });
    });

    test("counts setup against the time limit", async () => {
      const outcome = outcomeOf(await runProgram(shell, { timeoutSec: 1, setup: ["sleep 30"] }));
      expect(outcome).toMatchObject({ timedOut: true, exitCode: null, setupStep: "sleep 30" });
    });

    test("does not wait for a background process that keeps the pipe", async () => {
      const run = await runProgram(shell, { command: "sleep 30 & echo done" });
      expect(outcomeOf(run).stdout).toBe("done\n");
      expect(run.ms).toBeLessThan(10_000);
    });

    test("bounds the wait for a process that left the session and keeps the pipe", async () => {
      const run = await runProgram(shell, { command: "setsid sh -c 'sleep 25' & sleep 0.3; echo done" });
      expect(outcomeOf(run).stdout).toBe("done\n");
      expect(run.ms).toBeLessThan(15_000);
    });

    test("grades in the work directory with the agent's environment, after the agent's group is gone", async () => {
      const run = await runProgram(shell, {
        command: "echo 1 >made; (sleep 1; echo late >late) & exit 9",
        env: { MODE: "fast" },
        graders: [
          { name: "made", command: "test -f made && test $MODE = fast" },
          { name: "it's “bad”", command: "echo why; exit 3" },
          { name: "late", command: "sleep 1.2; test ! -f late" },
        ],
      });
      expect(outcomeOf(run).graderExits).toEqual({ made: 0, "it's “bad”": 3, late: 0 });
      expect(outcomeOf(run).stderr).toBe("");
      expect(run.stderr).toContain("[grader it's “bad”] exit 3\nwhy\n");
    });

    test("collects what is there, whole or from the start, within the size of a result line", async () => {
      const run = await runProgram(shell, {
        command: "head -c 60000 /dev/zero >a; head -c 300000 /dev/zero >big; mkdir dir; mkfifo pipe; echo x >z",
        collect: ["a", "big", "none", "dir", "pipe", "z"],
      });
      const { files, truncated } = outcomeOf(run);
      expect(Object.keys(files)).toEqual(["a", "big", "z"]);
      expect(files.a).toMatchObject({ bytes: 60_000 });
      expect(files.a?.truncated).toBeUndefined();
      expect(files.big).toMatchObject({ bytes: 300_000, truncated: true });
      expect(truncated).toContain("big");
      expect(run.compact).toMatchObject({ exitCode: 0, files: { a: { bytes: 60_000, truncated: true } } });
      expect(run.compactBytes).toBeLessThanOrEqual(4_000);
    });

    test("fits a result line when everything is large at once", async () => {
      const graders = Array.from({ length: 32 }, (_, index) => ({
        name: `${index}-${"é".repeat(190)}`,
        command: "exit 1",
      }));
      const collect = Array.from({ length: 32 }, (_, index) => `f${index}-${"x".repeat(200)}`);
      const run = await runProgram(shell, {
        command: `yes out | head -c 200000; yes err | head -c 200000 >&2; for f in ${collect.join(" ")}; do head -c 9000 /dev/zero >$f; done`,
        graders,
        collect,
      });
      const outcome = outcomeOf(run);
      expect(outcome.stdout).toHaveLength(65_536);
      expect(outcome.stderr).toHaveLength(65_536);
      expect(outcome.truncated?.length).toBeGreaterThan(0);
      expect(run.compact?.exitCode).toBe(0);
      expect(run.compact?.truncated).toContain("graders");
      expect(run.compactBytes).toBeLessThanOrEqual(4_000);
    });

    test("shows what the agent changed in a git source, new files included", async () => {
      const outcome = outcomeOf(
        await runProgram(
          shell,
          { source: { kind: "git" }, command: "echo two >>a.txt; echo new >b.txt; git add a.txt; git status --short" },
          { prepare: (dir) => gitRepository(join(dir, "source")) },
        ),
      );
      expect(outcome.stdout).toBe("M  a.txt\n?? b.txt\n");
      expect(outcome.diff).toMatch(/\+two\n[\s\S]*\+new\n/);
    });

    test("ends without an Outcome when it is told to stop, so that nobody grades it", async () => {
      const run = await runProgram(
        shell,
        { command: "trap 'echo bye; exit 0' TERM; echo up; sleep 30 & wait" },
        { started: (pid) => void setTimeout(() => process.kill(pid, "SIGTERM"), 700) },
      );
      expect(run).toMatchObject({ code: 143, outcome: null, fileOutcome: null });
      expect(run.ms).toBeLessThan(10_000);
    });

    test("says what is missing: the directory, a writable one, the nonce, the git source", async () => {
      const without = await runProgram(shell, {}, { env: { EVD_DIR: "" } });
      expect(without).toMatchObject({ code: 97, outcome: null });
      expect(without.stderr).toContain("EVD_DIR is not set");
      const readOnly = await runProgram(shell, {}, { env: { EVD_DIR: "/proc/evd" } });
      expect(readOnly.code).toBe(97);
      expect(readOnly.stderr).toContain("EVD_DIR /proc/evd is not writable");
      const nonce = await runProgram(shell, {}, { env: { EVD_NONCE_FILE: "/nonexistent" } });
      expect(nonce.stderr).toContain("EVD_NONCE_FILE");
      const source = await runProgram(shell, { source: { kind: "git" } });
      expect(source.stderr).toContain("no git source");
    });

    test("delivers the compact Outcome when the disk is full", async () => {
      const run = await runProgram(
        shell,
        { command: 'echo kept; sleep 0.3; head -c 9000000 /dev/zero >"$EVD_WORK_DIR/fill"; exit 6' },
        { prepare: (dir) => smallDisk(dir) },
      );
      unmount(run.dir);
      const outcome = outcomeOf(run);
      expect(outcome).toMatchObject({ exitCode: 6, stdoutBytes: 5 });
    });
  });
}

function git(dir: string, ...args: string[]): void {
  const done = spawnSync("git", ["-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.org", ...args]);
  if (done.status !== 0) throw new Error(done.stderr.toString());
}

function gitRepository(dir: string): void {
  mkdirSync(dir, { recursive: true });
  git(dir, "init", "-q");
  writeFileSync(join(dir, "a.txt"), "one\n");
  git(dir, "add", ".");
  git(dir, "commit", "-q", "-m", "start");
}

/** A file system of 1 MB below the program's directory, where the machine lets us mount one. */
function smallDisk(dir: string): void {
  spawnSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", dir]);
}

function unmount(dir: string): void {
  spawnSync("umount", [dir]);
}
