import { RE2JS, RE2JSException } from "re2js";

/**
 * Largest compiled pattern in RE2 instructions. Matching costs up to instructions × text, so this and REGEX_TEXT_CHARS
 * bound one grader: 1 to 2 s for the worst pattern found (`(a|b)*a(a|b){400}[cd]` on random text), milliseconds else.
 */
export const MAX_PROGRAM_SIZE = 1_000;
/** Text a pattern is tried on; the rest is left out, and the detail says so. */
export const REGEX_TEXT_CHARS = 65_536;

export type CompiledRegex = { ok: true; test: (text: string) => boolean } | { ok: false; reason: string };

/**
 * Compiles a pattern with the linear-time engine that grading uses.
 * @param flags any of i, m, s
 */
export function compileRegex(pattern: string, flags = ""): CompiledRegex {
  let bits = 0;
  if (flags.includes("i")) bits |= RE2JS.CASE_INSENSITIVE;
  if (flags.includes("m")) bits |= RE2JS.MULTILINE;
  if (flags.includes("s")) bits |= RE2JS.DOTALL;
  try {
    const compiled = RE2JS.compile(pattern, bits);
    const size = compiled.programSize();
    if (size > MAX_PROGRAM_SIZE) {
      return {
        ok: false,
        reason: `is too large: ${size} instructions, at most ${MAX_PROGRAM_SIZE}; use smaller repeat counts`,
      };
    }
    return { ok: true, test: (text) => compiled.test(text) };
  } catch (error) {
    if (error instanceof RE2JSException) return { ok: false, reason: error.message };
    return { ok: false, reason: "is not a regular expression of the RE2 class" };
  }
}

/**
 * Why a pattern cannot be used in a regex grader, or null when it can; asked at registration.
 * @param flags any of i, m, s
 */
export function regexIssue(pattern: string, flags?: string): string | null {
  const compiled = compileRegex(pattern, flags);
  if (compiled.ok) return null;
  const lookAround = /\(\?<?[=!]/.test(pattern) ? "; look-around is not in the RE2 class" : "";
  const backReference = /\\[1-9]/.test(pattern) ? "; backreferences are not in the RE2 class" : "";
  return `${compiled.reason}${lookAround}${backReference}`.slice(0, 1_000);
}
