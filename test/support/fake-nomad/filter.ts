/** Reads a value of a row by a dotted path, as Nomad's filter language does. */
function valueAt(row: unknown, path: string): string {
  let value: unknown = row;
  for (const part of path.split("."))
    value = value !== null && typeof value === "object" ? Reflect.get(value, part) : "";
  return String(value ?? "");
}

const CLAUSE = /^\s*([A-Za-z][\w.]*)\s*(==|!=|matches|contains)\s*"((?:[^"\\]|\\.)*)"\s*$/;

/**
 * The part of Nomad's filter language that was seen to work: ==, !=, matches and contains, joined by `and` or by `or`.
 * @returns null for an expression that Nomad answers with 400
 */
export function filterOf(expression: string): ((row: unknown) => boolean) | null {
  const any = expression.split(/ or /).map((part) => part.split(/ and /).map((clause) => CLAUSE.exec(clause)));
  if (any.some((all) => all.some((clause) => clause === null))) return null;
  const holds = (row: unknown, [, path = "", operator, value = ""]: string[]): boolean => {
    const found = valueAt(row, path);
    if (operator === "==") return found === value;
    if (operator === "!=") return found !== value;
    return operator === "contains" ? found.includes(value) : new RegExp(value).test(found);
  };
  return (row) => any.some((all) => all.every((clause) => clause !== null && holds(row, clause)));
}
