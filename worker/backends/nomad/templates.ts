/*
 * Files for a task by Nomad's templates. A template is text with actions between delimiters, so the delimiters are made
 * such that the text cannot hold them; `${…}` is left alone there (N 14).
 */

export interface Template {
  EmbeddedTmpl: string;
  DestPath: string;
  ChangeMode: "noop";
  Perms: string;
  LeftDelim: string;
  RightDelim: string;
  Envvars: boolean;
}

/** A pair that does not occur in the text; made from the attempt's nonce, so that a repeated start sends the same body. */
function delimitersFor(text: string, nonce: string): [string, string] {
  for (let turn = 0; ; turn++) {
    const mark = `${nonce.slice(0, 16)}${turn === 0 ? "" : turn}`;
    const pair: [string, string] = [`[[${mark}<`, `>${mark}]]`];
    if (!pair.some((delimiter) => text.includes(delimiter))) return pair;
  }
}

/** A file with exactly this text. @param perms octal, for example 0444 */
export function fileTemplate(text: string, path: string, perms: string, nonce: string): Template {
  const [LeftDelim, RightDelim] = delimitersFor(text, nonce);
  return {
    EmbeddedTmpl: text,
    DestPath: path,
    ChangeMode: "noop",
    Perms: perms,
    LeftDelim,
    RightDelim,
    Envvars: false,
  };
}

export interface EnvironmentInput {
  /** Values that may be read by whoever may read the job. */
  literals: Readonly<Record<string, string>>;
  /** Item of the job's Nomad Variable by environment variable. */
  items: Readonly<Record<string, string>>;
  /** Path of the Nomad Variable. */
  variable: string;
  nonce: string;
}

/**
 * Environment from a template. Values are written as JSON strings: a newline in a plain one would set further variables
 * (N 44). `printf "%s"` makes an item a string whatever the version's type for it.
 */
export function environmentTemplate(input: EnvironmentInput): Template | null {
  const literals = Object.entries(input.literals).map(([name, value]) => `${name}=${JSON.stringify(value)}\n`);
  const items = Object.entries(input.items);
  if (literals.length === 0 && items.length === 0) return null;
  const [left, right] = delimitersFor(literals.join(""), input.nonce);
  const secret = items.map(([name, item]) => `${name}=${left} printf "%s" .${item} | toJSON ${right}\n`);
  const block =
    items.length === 0
      ? ""
      : `${left} with nomadVar "${input.variable}" ${right}${secret.join("")}${left} end ${right}\n`;
  return {
    EmbeddedTmpl: literals.join("") + block,
    DestPath: "secrets/env",
    ChangeMode: "noop",
    Perms: "0600",
    LeftDelim: left,
    RightDelim: right,
    Envvars: true,
  };
}
