/* Search parameters are the state of a page: typed, and a value that makes no sense is no value. */

type Read<T> = (value: unknown) => T | undefined;

export const text: Read<string> = (value) =>
  (typeof value === "string" || typeof value === "number") && String(value) !== "" ? String(value) : undefined;

export const oneOf =
  <const T extends string>(values: readonly T[]): Read<T> =>
  (value) =>
    values.find((known) => known === value);

/** A sort such as `created` or `-created` (descending). */
export const sort: Read<string> = (value) =>
  typeof value === "string" && /^-?[A-Za-z]{1,40}$/.test(value) ? value : undefined;

type Shape = Record<string, Read<unknown>>;
type Parsed<S extends Shape> = { [K in keyof S]?: NonNullable<ReturnType<S[K]>> | undefined };

/** A `validateSearch` from readers by name. */
export const searchOf =
  <S extends Shape>(shape: S) =>
  (raw: Record<string, unknown>): Parsed<S> => {
    const out: Record<string, unknown> = {};
    for (const [name, read] of Object.entries(shape)) {
      const value = read(raw[name]);
      // The router lays this over the address as it was typed: what makes no sense there is covered, not left out.
      if (value !== undefined || name in raw) out[name] = value;
    }
    return out as Parsed<S>;
  };

/** `?a=1` as the router wants it; every value is text. */
export const parseSearch = (raw: string): Record<string, string> => Object.fromEntries(new URLSearchParams(raw));

export function stringifySearch(search: Record<string, unknown>): string {
  const out = new URLSearchParams();
  for (const [name, value] of Object.entries(search))
    if (value !== undefined && value !== null && value !== "") out.set(name, String(value));
  const query = out.toString();
  return query === "" ? "" : `?${query}`;
}
