import * as z from "zod";

/** What is said of a number that is not in its range. @param of the unit in words, for example "seconds" */
export const wholeRange = (min: number, max: number, of?: string): string =>
  `must be a whole number${of === undefined ? "" : ` of ${of}`} from ${min} to ${max}`;

/** A whole number in a range; whatever is wrong with it, the answer names the range. */
export function whole(min: number, max: number, of?: string) {
  const error = wholeRange(min, max, of);
  return z.number({ error }).int({ error }).min(min, { error }).max(max, { error });
}

/** Any number in a range. */
export function between(min: number, max: number) {
  const error = `must be a number from ${min} to ${max}`;
  return z.number({ error }).min(min, { error }).max(max, { error });
}
