import type { InfiniteData, QueryClient, QueryKey } from "@tanstack/react-query";
import type { OperationName } from "../../contracts/operations/index.ts";
import type { Item, Output } from "./queries.ts";

interface Listed<I> {
  items: I[];
}

/** Shows what a write will bring about before its answer is there, and takes it back when it is refused. */
export class Optimist {
  readonly #queries: QueryClient;
  readonly #workspace: string;
  readonly #before: [QueryKey, unknown][] = [];

  constructor(queries: QueryClient, workspace: string) {
    this.#queries = queries;
    this.#workspace = workspace;
  }

  /** Changes the items of every list of an operation, however it was read: whole, by pages, or one page. */
  items<K extends OperationName>(name: K, change: (items: Item<K>[]) => Item<K>[]): void {
    this.#change(name, (old) => {
      if (Array.isArray(old)) return change(old);
      if (isPaged<Item<K>>(old))
        return { ...old, pages: old.pages.map((page) => ({ ...page, items: change(page.items) })) };
      return isListed<Item<K>>(old) ? { ...old, items: change(old.items) } : old;
    });
  }

  /** Changes every answer of an operation that reads one thing. */
  answer<K extends OperationName>(name: K, change: (answer: Output<K>) => Output<K>): void {
    // SAFETY: what useRead keeps under an operation's name is that operation's answer.
    this.#change(name, (old) => change(old as Output<K>));
  }

  rollback(): void {
    for (const [key, data] of this.#before) this.#queries.setQueryData(key, data);
  }

  #change(name: OperationName, change: (old: unknown) => unknown): void {
    for (const [key, data] of this.#queries.getQueriesData({ queryKey: [this.#workspace, name] })) {
      if (data === undefined) continue;
      this.#before.push([key, data]);
      this.#queries.setQueryData(key, change(data));
    }
  }
}

const isListed = <I>(data: unknown): data is Listed<I> =>
  typeof data === "object" && data !== null && "items" in data && Array.isArray(data.items);

const isPaged = <I>(data: unknown): data is InfiniteData<Listed<I>> =>
  typeof data === "object" && data !== null && "pages" in data && Array.isArray(data.pages);
