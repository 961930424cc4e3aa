/*
 * Placeholders in a harness's commands. No quoting makes textual substitution safe, so a placeholder becomes a variable
 * expansion: the value reaches the shell as data. The command is read the way a POSIX shell reads it, to know which form
 * of expansion is right at that place, and to refuse the places where none is.
 */

const BUILT_IN: Readonly<Record<string, string>> = { task: "EVD_TASK", model: "EVD_MODEL", run_id: "EVD_RUN_ID" };

/** Environment variable that carries a parameter's value. */
export function paramVariable(name: string): string {
  return `EVD_PARAM_${name.toUpperCase()}`;
}

export interface PlaceholderIssue {
  message: string;
}

export type Expansion = { ok: true; command: string } | { ok: false; issues: PlaceholderIssue[] };

type Quoting = "unquoted" | "double" | "single" | "backtick" | "arithmetic" | "parameter" | "dollar-single";

interface Frame {
  quoting: Quoting;
  /** Open parentheses inside a $( … ) or (( … )). */
  parens: number;
  /** Open `case … esac`, whose patterns end with a parenthesis that closes nothing. */
  cases: number;
  /** For a parameter expansion: whether it stands inside double quotes. */
  doubled: boolean;
}

interface Heredoc {
  delimiter: string;
  stripTabs: boolean;
}

const PLACEHOLDER = /\{\{([A-Za-z_][A-Za-z0-9_]*)\}\}/y;
const WORD = /[A-Za-z_]+/y;
/** Words after which a command, and so `case`, may stand. */
const COMMAND_FOLLOWS = new Set(["then", "do", "else", "elif", "if", "while", "until"]);
const MAX_ISSUES = 20;

const REFUSED: Partial<Record<Quoting, string>> = {
  single: "single quotes keep a variable from being expanded; put {{NAME}} outside them or use double quotes",
  "dollar-single": "$'…' keeps a variable from being expanded; put {{NAME}} outside it or use double quotes",
  backtick: "inside backticks the quoting cannot be made safe; use $( … ) instead",
  arithmetic: "an arithmetic expression would evaluate the value as code; assign it to a variable and check it first",
};

class Tokenizer {
  readonly #text: string;
  readonly #variables: ReadonlyMap<string, string>;
  readonly #issues: PlaceholderIssue[] = [];
  readonly #frames: Frame[] = [frame("unquoted")];
  readonly #heredocs: Heredoc[] = [];
  #at = 0;
  #out = "";
  /** A command may start here, so `case` and `((` are what they say. */
  #commandStart = true;
  /** A word may start here, so `#` opens a comment. */
  #wordStart = true;

  constructor(text: string, variables: ReadonlyMap<string, string>) {
    this.#text = text;
    this.#variables = variables;
  }

  run(): Expansion {
    while (this.#at < this.#text.length) this.#step();
    return this.#issues.length > 0 ? { ok: false, issues: this.#issues } : { ok: true, command: this.#out };
  }

  get #top(): Frame {
    return this.#frames[this.#frames.length - 1] ?? frame("unquoted");
  }

  #step(): void {
    if (this.#placeholder()) return;
    const { quoting } = this.#top;
    const char = this.#text.charAt(this.#at);
    if (quoting === "single") this.#until(char === "'");
    else if (char === "\\") this.#copy(2, false);
    else if (quoting === "backtick") this.#until(char === "`");
    else if (quoting === "dollar-single") this.#until(char === "'");
    else if (char === "$") this.#dollar();
    else if (char === "`") this.#open("backtick", 1);
    else if (quoting === "double") this.#until(char === '"');
    else if (quoting === "parameter") this.#parameter(char);
    else if (quoting === "arithmetic") this.#arithmetic(char);
    else this.#unquoted(char);
  }

  #placeholder(): boolean {
    PLACEHOLDER.lastIndex = this.#at;
    const name = PLACEHOLDER.exec(this.#text)?.[1];
    if (name === undefined) return false;
    const variable = this.#variables.get(name);
    const frameNow = this.#top;
    const refused = REFUSED[frameNow.quoting];
    if (variable === undefined) {
      const known = [...this.#variables.keys()].map((one) => `{{${one}}}`).join(", ");
      this.#issue(`unknown placeholder {{${name}}}; known are ${known}; for the text itself write {''{${name}}}`);
    } else if (refused !== undefined) {
      this.#issue(refused.replace("NAME", name));
    }
    const doubled = frameNow.quoting === "double" || (frameNow.quoting === "parameter" && frameNow.doubled);
    this.#out += doubled ? `\${${variable}}` : `"\${${variable}}"`;
    this.#at += name.length + 4;
    this.#commandStart = false;
    this.#wordStart = false;
    return true;
  }

  #issue(message: string): void {
    if (this.#issues.length >= MAX_ISSUES) return;
    const before = this.#text.slice(0, this.#at).split("\n");
    const column = (before[before.length - 1]?.length ?? 0) + 1;
    this.#issues.push({ message: `line ${before.length}, column ${column}: ${message}` });
  }

  #copy(length: number, wordStart: boolean): void {
    this.#out += this.#text.slice(this.#at, this.#at + length);
    this.#at += length;
    this.#wordStart = wordStart;
    if (!wordStart) this.#commandStart = false;
  }

  #open(quoting: Quoting, length: number): void {
    const doubled = this.#top.quoting === "double" || (this.#top.quoting === "parameter" && this.#top.doubled);
    const fresh = quoting === "unquoted";
    this.#copy(length, fresh);
    this.#commandStart = fresh;
    this.#frames.push({ ...frame(quoting), doubled });
  }

  #closeFrame(length: number): void {
    if (this.#frames.length > 1) this.#frames.pop();
    this.#copy(length, false);
  }

  #until(closing: boolean): void {
    if (closing) this.#closeFrame(1);
    else this.#copy(1, false);
  }

  #dollar(): void {
    const rest = this.#text.slice(this.#at, this.#at + 3);
    PLACEHOLDER.lastIndex = this.#at + 1;
    if (PLACEHOLDER.test(this.#text)) {
      // A dollar in front of an expansion would make it another one.
      this.#out += "\\$";
      this.#at++;
    } else if (rest === "$((") this.#open("arithmetic", 3);
    else if (rest.startsWith("$(")) this.#open("unquoted", 2);
    else if (rest.startsWith("${")) this.#open("parameter", 2);
    else if (rest.startsWith("$'") && this.#top.quoting !== "double") this.#open("dollar-single", 2);
    else this.#copy(1, false);
  }

  #parameter(char: string): void {
    if (char === "}") this.#closeFrame(1);
    else if (char === '"') this.#open("double", 1);
    else if (char === "'" && !this.#top.doubled) this.#open("single", 1);
    else this.#copy(1, false);
  }

  #arithmetic(char: string): void {
    const top = this.#top;
    if (char === ")" && top.parens === 0) {
      this.#closeFrame(this.#text.charAt(this.#at + 1) === ")" ? 2 : 1);
      return;
    }
    if (char === "(") top.parens++;
    if (char === ")") top.parens--;
    this.#copy(1, false);
  }

  #unquoted(char: string): void {
    const top = this.#top;
    if (char === "'") this.#open("single", 1);
    else if (char === '"') this.#open("double", 1);
    else if (char === "#" && this.#wordStart) this.#comment();
    else if (char === "\n") this.#newline();
    else if (char === "<") this.#heredoc();
    else if (char === "(") this.#parenthesis(top);
    else if (char === ")") this.#closing(top);
    else if (";&|{!".includes(char)) this.#separator();
    else if (char === " " || char === "\t") this.#blank();
    else this.#word(top);
  }

  #separator(): void {
    this.#copy(1, true);
    this.#commandStart = true;
  }

  #blank(): void {
    this.#copy(1, true);
  }

  #word(top: Frame): void {
    WORD.lastIndex = this.#at;
    const word = this.#wordStart ? WORD.exec(this.#text)?.[0] : undefined;
    if (word === undefined) this.#copy(1, false);
    else this.#reserved(top, word);
  }

  #reserved(top: Frame, word: string): void {
    const next = this.#text.charAt(this.#at + word.length);
    const whole = next === "" || /[\s;&|()]/.test(next);
    const starts = this.#commandStart && whole;
    if (starts && word === "case") top.cases++;
    if (starts && word === "esac" && top.cases > 0) top.cases--;
    this.#copy(word.length, false);
    this.#commandStart = starts && COMMAND_FOLLOWS.has(word);
  }

  #comment(): void {
    const end = this.#text.indexOf("\n", this.#at);
    this.#copy((end < 0 ? this.#text.length : end) - this.#at, true);
  }

  #parenthesis(top: Frame): void {
    if (this.#commandStart && this.#text.startsWith("((", this.#at)) {
      this.#open("arithmetic", 2);
      return;
    }
    top.parens++;
    this.#separator();
  }

  #closing(top: Frame): void {
    if (top.parens === 0 && top.cases === 0 && this.#frames.length > 1) {
      this.#closeFrame(1);
      return;
    }
    if (top.parens > 0) top.parens--;
    this.#separator();
  }

  /** Notes a here-document; its body starts after the next newline. `<<<` is an ordinary word. */
  #heredoc(): void {
    const rest = this.#text.slice(this.#at, this.#at + 300);
    const match = /^<<(-?)[ \t]*((?:\\.|'[^'\n]*'|"[^"\n]*"|[^\s;&|()<>'"\\])+)/.exec(rest);
    if (rest.startsWith("<<<")) this.#copy(3, true);
    else if (!match) this.#copy(1, true);
    else {
      this.#heredocs.push({ delimiter: (match[2] ?? "").replace(/['"\\]/g, ""), stripTabs: match[1] === "-" });
      this.#copy(match[0].length, false);
    }
  }

  #newline(): void {
    this.#separator();
    for (const heredoc of this.#heredocs.splice(0)) this.#body(heredoc);
  }

  #body(heredoc: Heredoc): void {
    while (this.#at < this.#text.length) {
      const newline = this.#text.indexOf("\n", this.#at);
      const end = newline < 0 ? this.#text.length : newline;
      const line = this.#text.slice(this.#at, end);
      for (const match of line.matchAll(/\{\{([A-Za-z_][A-Za-z0-9_]*)\}\}/g)) {
        if (!this.#variables.has(match[1] ?? "")) continue;
        this.#issue(`a here-document cannot take ${match[0]} safely; use printf '%s' ${match[0]} instead`);
      }
      this.#copy(end - this.#at + 1, true);
      this.#commandStart = true;
      if ((heredoc.stripTabs ? line.replace(/^\t+/, "") : line) === heredoc.delimiter) return;
    }
  }
}

function frame(quoting: Quoting): Frame {
  return { quoting, parens: 0, cases: 0, doubled: false };
}

/**
 * Turns {{task}}, {{model}}, {{run_id}} and parameter names into expansions of EVD_* variables: quoted where the command
 * is unquoted, plain inside double quotes; elsewhere an issue says how to write it. Only `{{identifier}}` is a
 * placeholder, any other braces are data.
 * @param paramNames parameters of the harness
 */
export function expandPlaceholders(command: string, paramNames: readonly string[]): Expansion {
  const variables = new Map(Object.entries(BUILT_IN));
  const issues: PlaceholderIssue[] = [];
  const taken = new Map<string, string>();
  for (const name of paramNames) {
    const variable = paramVariable(name);
    const other = taken.get(variable);
    if (!/^[A-Za-z_][A-Za-z0-9_]{0,99}$/.test(name))
      issues.push({
        message: `parameter '${name.slice(0, 100)}' must be letters, digits and '_', not starting with a digit`,
      });
    else if (variables.has(name))
      issues.push({ message: `parameter '${name}' has the name of a built-in placeholder` });
    else if (other !== undefined) issues.push({ message: `parameters '${other}' and '${name}' differ only in case` });
    else variables.set(name, variable);
    taken.set(variable, name);
  }
  if (issues.length > 0) return { ok: false, issues };
  return new Tokenizer(command, variables).run();
}
