import type { TaskBody } from "./model.ts";

type Template = NonNullable<TaskBody["Templates"]>[number];

/** Variables by path, as a task may read them. */
export type Variables = (path: string) => Readonly<Record<string, string>> | null;

/**
 * Renders what templates of jobs use: text, `with nomadVar "path"`, `printf "%s" .ITEM | toJSON` and `end`.
 * @returns null when a variable is missing
 */
export function render(template: Template, variables: Variables): string | null {
  const left = template.LeftDelim ?? "{{";
  const right = template.RightDelim ?? "}}";
  let items: Readonly<Record<string, string>> = {};
  let out = "";
  template.EmbeddedTmpl.split(left).forEach((part, index) => {
    if (index === 0) {
      out += part;
      return;
    }
    const [action = "", ...rest] = part.split(right);
    const path = /^\s*with nomadVar "([^"]+)"\s*$/.exec(action)?.[1];
    const item = /^\s*printf "%s" \.(\w+) \| toJSON\s*$/.exec(action)?.[1];
    if (path !== undefined) items = variables(path) ?? {};
    else if (item !== undefined) out += JSON.stringify(items[item] ?? "");
    else if (action.trim() !== "end") throw new Error(`template: function ${JSON.stringify(action)} not defined`);
    out += rest.join(right);
  });
  return out;
}

/** Reads an env file as Nomad does: plain values end with the line, quoted ones are JSON strings. */
export function parseEnvironment(file: string): Record<string, string> {
  const out: Record<string, string> = {};
  for (const line of file.split("\n")) {
    const equals = line.indexOf("=");
    if (equals <= 0) continue;
    const value = line.slice(equals + 1);
    out[line.slice(0, equals)] = value.startsWith('"') ? String(JSON.parse(value)) : value;
  }
  return out;
}
