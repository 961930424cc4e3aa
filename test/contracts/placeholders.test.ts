import { spawnSync } from "node:child_process";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { expandPlaceholders } from "../../contracts/placeholders.ts";

const expanded = (command: string, params: string[] = []): string => {
  const result = expandPlaceholders(command, params);
  if (!result.ok) throw new Error(result.issues.map((issue) => issue.message).join("\n"));
  return result.command;
};
const refused = (command: string, params: string[] = []): string => {
  const result = expandPlaceholders(command, params);
  return result.ok ? "" : result.issues.map((issue) => issue.message).join("\n");
};

describe("a placeholder becomes an expansion that fits its place", () => {
  test.each([
    ["printf %s {{task}}", 'printf %s "${EVD_TASK}"'],
    ['printf %s "{{task}}"', 'printf %s "${EVD_TASK}"'],
    ["run --m={{model}}/{{run_id}}", 'run --m="${EVD_MODEL}"/"${EVD_RUN_ID}"'],
    ['a "$(b {{task}} "x{{task}}")"', 'a "$(b "${EVD_TASK}" "x${EVD_TASK}")"'],
    ['echo "${X:-{{task}}}"', 'echo "${X:-${EVD_TASK}}"'],
    ["echo ${X:-{{task}}}", 'echo ${X:-"${EVD_TASK}"}'],
    ["cat <<<{{task}}", 'cat <<<"${EVD_TASK}"'],
    ["echo 5${{task}}", 'echo 5\\$"${EVD_TASK}"'],
    ["case {{task}} in a) x {{task}};; esac", 'case "${EVD_TASK}" in a) x "${EVD_TASK}";; esac'],
    [
      'echo "$(case {{task}} in a) x;; esac; echo {{task}})"',
      'echo "$(case "${EVD_TASK}" in a) x;; esac; echo "${EVD_TASK}")"',
    ],
    ["echo it # isn't {{nothing}}\necho {{task}}", `echo it # isn't {{nothing}}\necho "\${EVD_TASK}"`],
    ["cat <<EOF\nit's\nEOF\necho {{task}}", `cat <<EOF\nit's\nEOF\necho "\${EVD_TASK}"`],
    ["echo 'it'\\''s' {{task}}", `echo 'it'\\''s' "\${EVD_TASK}"`],
  ])("%s", (command, wanted) => {
    expect(expanded(command)).toBe(wanted);
  });

  test("parameters have variables of their own", () => {
    expect(expanded("run -t {{temp}}", ["temp"])).toBe('run -t "${EVD_PARAM_TEMP}"');
  });

  test.each([
    'echo {{ env "HOME" }}',
    "echo {{ task }}",
    "echo {{.Names}}",
    "echo \\{{task}}",
    "{ { a; }; }",
    "a${b}{c}",
  ])("other braces are data: %s", (command) => {
    expect(expanded(command)).toBe(command);
  });
});

describe("a placeholder is refused where nothing can be safe, with the way to write it", () => {
  test.each([
    ["echo '{{task}}'", "single quotes"],
    ["echo $'{{task}}'", "$'…'"],
    ["echo `cat {{task}}`", "use $( … ) instead"],
    ['echo "`cat {{task}}`"', "backticks"],
    ["echo $(( {{task}} + 1 ))", "arithmetic"],
    ["(( {{task}} ))", "arithmetic"],
    ["cat <<EOF\n{{task}}\nEOF", "here-document"],
    ["cat <<-'E F'\n\t{{task}}\n\tE F", "here-document"],
  ])("%s", (command, words) => {
    expect(refused(command)).toContain(words);
  });

  test("an unknown one is named with the known ones and its place", () => {
    expect(refused("echo\n  {{taks}}", ["temp"])).toMatch(
      /line 2, column 3: unknown placeholder \{\{taks\}\}.*\{\{task\}\}.*\{\{temp\}\}/,
    );
  });

  test("parameters with the same variable, a built-in name or an impossible name are refused", () => {
    expect(refused("x", ["a", "A"])).toContain("differ only in case");
    expect(refused("x", ["task"])).toContain("built-in");
    expect(refused("x", ["a-b"])).toContain("'a-b' must be");
  });
});

test("whatever the command, the task never becomes code", () => {
  const piece = fc.constantFrom(
    "{{task}}",
    "echo ",
    '"',
    "'",
    "`",
    "$(",
    ")",
    "${X:-",
    "}",
    "(",
    "((",
    "))",
    "$((",
    ";",
    "\n",
    " ",
    "#",
    "\\",
    "$",
    "case x in ",
    "esac",
    "<<E\n",
    "E\n",
    "|",
    "&",
    "a",
    "\\\n",
    "$'",
    "<<<",
    "{",
    "!",
    "then ",
    "if ",
  );
  // The command runs with a third stream that only the code inside the task would write to.
  const task = "$(echo PWNED >&3); `echo PWNED >&3`; echo PWNED >&3 #";
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 14 }), (pieces) => {
      const result = expandPlaceholders(pieces.join(""), []);
      if (!result.ok) return;
      const run = spawnSync("/bin/sh", ["-c", result.command], {
        env: { EVD_TASK: task, PATH: "/nonexistent" },
        stdio: ["ignore", "ignore", "ignore", "pipe"],
        timeout: 5_000,
      });
      expect(String(run.output?.[3] ?? "no output")).not.toContain("PWNED");
    }),
    { numRuns: 600 },
  );
});
