/** Calls of one pass that are open at a time: a Worker waits with more than six until one has its headers. */
const AT_ONCE = 6;

/** The answers of `work` in the order of `items`, a few at a time. Rejects with the first error. */
export async function eachOf<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const out: R[] = new Array(items.length);
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let at = next++; at < items.length; at = next++) {
      const item = items[at];
      if (item !== undefined) out[at] = await work(item);
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, items.length) }, worker));
  return out;
}
