import * as z from "zod";

/** What may be sent: an optional key may be absent or null. */
type WithNulls<T> = { [K in keyof T]: undefined extends T[K] ? T[K] | null : T[K] };

/**
 * The same object, where null at an optional key means what its absence means, as in everything the API itself says. The
 * null is dropped, so that what reads the object knows one way of saying none. Keys whose null has a meaning keep it.
 */
export function nullIsNone<S extends z.ZodObject>(schema: S): z.ZodType<z.output<S>, WithNulls<z.input<S>>> {
  const droppable = Object.entries(schema.shape).filter(
    (entry): entry is [string, z.ZodOptional<z.ZodType>] =>
      entry[1] instanceof z.ZodOptional && !entry[1].safeParse(null).success,
  );
  const loose = schema.extend(
    Object.fromEntries(
      droppable.map(([key, field]) => {
        const nullable = field.unwrap().nullable().optional();
        return [key, field.description === undefined ? nullable : nullable.describe(field.description)];
      }),
    ),
  );
  const names = new Set(droppable.map(([key]) => key));
  const strict = loose.transform((value) =>
    Object.fromEntries(Object.entries(value).filter(([key, item]) => item !== null || !names.has(key))),
  );
  // SAFETY: every key is checked by `schema`'s own field, and the nulls that it would refuse are gone.
  return strict as unknown as z.ZodType<z.output<S>, WithNulls<z.input<S>>>;
}
