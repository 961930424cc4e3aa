import {
  type InfiniteData,
  keepPreviousData,
  MutationCache,
  QueryCache,
  QueryClient,
  type UseInfiniteQueryResult,
  type UseMutationResult,
  type UseQueryResult,
  useInfiniteQuery,
  useMutation,
  useQuery,
  useQueryClient,
} from "@tanstack/react-query";
import type { CallInput } from "../../contracts/client.ts";
import { OPERATIONS, type OperationName, type Operations } from "../../contracts/operations/index.ts";
import type { Operation, OutputOf } from "../../contracts/operations/operation.ts";
import { notifyError } from "../ui/notify.ts";
import { setConnectionLost } from "./connection.ts";
import { isCode, isOffline, troubleOf } from "./errors.ts";
import { Optimist } from "./optimist.ts";
import { useSession } from "./session.ts";

export type Output<K extends OperationName> = OutputOf<Operations[K]>;
export type Item<K extends OperationName> = Output<K> extends { items: (infer I)[] } ? I : never;
type Input<K extends OperationName> = Omit<CallInput<K>, "signal" | "idempotencyKey">;

/** A list still grows by itself past this many rows only when asked. */
const ALL_MAX = 20_000;

export function createQueryClient(): QueryClient {
  const heard = () => setConnectionLost(false);
  const failed = (error: unknown, asksWho = false) => {
    setConnectionLost(isOffline(error));
    // The session has ended: who one is is asked again, and that leads to the sign-in.
    if (isCode(error, "UNAUTHENTICATED") && !asksWho) void client.invalidateQueries({ queryKey: ["me"] });
  };
  const client: QueryClient = new QueryClient({
    queryCache: new QueryCache({
      onSuccess: heard,
      onError: (error, query) => failed(error, query.queryKey[0] === "me"),
    }),
    mutationCache: new MutationCache({ onSuccess: heard, onError: (error) => failed(error) }),
    defaultOptions: {
      queries: {
        networkMode: "always",
        staleTime: 5_000,
        refetchOnWindowFocus: true,
        retry: (count, error) => count < 2 && troubleOf(error).transient && !isCode(error, "RATE_LIMITED"),
        retryDelay: (count) => 300 * 2 ** count,
      },
      mutations: { networkMode: "always" },
    },
  });
  return client;
}

export const keyOf = (workspace: string, name: OperationName, input: unknown = {}): unknown[] => [
  workspace,
  name,
  input,
];

interface ReadOptions<K extends OperationName> {
  enabled?: boolean;
  /** Milliseconds between two looks, or a rule; off by default. Never while the page is hidden. */
  every?: number | ((data: Output<K> | undefined) => number | false);
  /** Keep showing the answer to the last question while the next one is asked. */
  keep?: boolean;
  staleTime?: number;
}

/** Reads one operation. The key is [workspace, operation, input]. */
export function useRead<K extends OperationName>(
  name: K,
  input: Input<K> = {},
  options: ReadOptions<K> = {},
): UseQueryResult<Output<K>> {
  const { client, workspace } = useSession();
  const { every, enabled = true, keep = false, staleTime } = options;
  return useQuery<Output<K>>({
    queryKey: keyOf(workspace, name, input),
    queryFn: ({ signal }) => client.call(name, { ...input, signal } as CallInput<K>),
    enabled,
    ...(staleTime === undefined ? {} : { staleTime }),
    ...(keep ? { placeholderData: keepPreviousData } : {}),
    ...(every === undefined
      ? {}
      : { refetchInterval: typeof every === "number" ? every : (query) => every(query.state.data) }),
  }) as UseQueryResult<Output<K>>;
}

/** Every item of a list, page after page, as one answer. */
export function useAll<K extends OperationName>(
  name: K,
  input: Input<K> = {},
  options: Omit<ReadOptions<K>, "every"> & { every?: number | false } = {},
): UseQueryResult<Item<K>[]> {
  const { client, workspace } = useSession();
  return useQuery<Item<K>[]>({
    queryKey: [...keyOf(workspace, name, input), "all"],
    queryFn: async ({ signal }) => {
      const items: Item<K>[] = [];
      for await (const item of client.all(name, { ...input, signal } as CallInput<K>)) {
        items.push(item as Item<K>);
        if (items.length >= ALL_MAX) break;
      }
      return items;
    },
    enabled: options.enabled ?? true,
    ...(options.staleTime === undefined ? {} : { staleTime: options.staleTime }),
    ...(options.every ? { refetchInterval: options.every } : {}),
  }) as UseQueryResult<Item<K>[]>;
}

interface Page<I> {
  items: I[];
  nextCursor: string | null;
}

/** A list that is read page by page as somebody asks for more. */
export function usePages<K extends OperationName>(
  name: K,
  input: Input<K> = {},
  options: { every?: number | ((items: Item<K>[]) => number | false); enabled?: boolean } = {},
): UseInfiniteQueryResult<InfiniteData<Page<Item<K>>>> & { items: Item<K>[] | undefined } {
  const { client, workspace } = useSession();
  const { every } = options;
  const query = useInfiniteQuery({
    queryKey: [...keyOf(workspace, name, input), "pages"],
    queryFn: async ({ signal, pageParam }) => {
      const page = pageParam === "" ? {} : { cursor: pageParam };
      const asked = { ...input, query: { ...input.query, ...page }, signal } as CallInput<K>;
      return (await client.call(name, asked)) as unknown as Page<Item<K>>;
    },
    initialPageParam: "",
    getNextPageParam: (page: Page<Item<K>>) => page.nextCursor ?? undefined,
    enabled: options.enabled ?? true,
    placeholderData: keepPreviousData,
    ...(every === undefined
      ? {}
      : {
          refetchInterval:
            typeof every === "number"
              ? every
              : (state: { state: { data?: InfiniteData<Page<Item<K>>> | undefined } }) =>
                  every(state.state.data?.pages.flatMap((page) => page.items) ?? []),
        }),
  });
  return { ...query, items: query.data?.pages.flatMap((page) => page.items) } as never;
}

interface WriteOptions<K extends OperationName> {
  /** Operations whose answers are asked for again afterwards. */
  refreshes?: readonly OperationName[];
  onSuccess?: (output: Output<K>, input: Input<K>) => void;
  /** What is shown until the answer is there; of operations that `refreshes` names. Taken back when it is refused. */
  optimistic?: (shown: Optimist, input: Input<K>) => void;
  /** Shown where the button is; absent: a toast says it. */
  quiet?: boolean;
}

/** Does one operation. A repeat of one that creates carries the same Idempotency-Key, so that it creates once. */
export function useWrite<K extends OperationName>(
  name: K,
  options: WriteOptions<K> = {},
): UseMutationResult<Output<K>, unknown, Input<K>, Optimist | undefined> {
  const { client, workspace } = useSession();
  const queries = useQueryClient();
  const refresh = () =>
    Promise.all((options.refreshes ?? []).map((other) => queries.invalidateQueries({ queryKey: [workspace, other] })));
  return useMutation<Output<K>, unknown, Input<K>, Optimist | undefined>({
    onMutate: async (input) => {
      if (!options.optimistic) return undefined;
      // An older answer that is on its way would undo it for a moment.
      await Promise.all(
        (options.refreshes ?? []).map((other) => queries.cancelQueries({ queryKey: [workspace, other] })),
      );
      const shown = new Optimist(queries, workspace);
      options.optimistic(shown, input);
      return shown;
    },
    mutationFn: (input) => {
      // SAFETY: the table's entries are Operations; only their schemas' types differ.
      const { creates } = OPERATIONS[name] as unknown as Operation;
      return client.call(name, {
        ...input,
        ...(creates ? { idempotencyKey: crypto.randomUUID() } : {}),
      } as CallInput<K>) as Promise<Output<K>>;
    },
    onSuccess: async (output, input) => {
      options.onSuccess?.(output, input);
      await refresh();
    },
    onError: (error, _input, shown) => {
      shown?.rollback();
      if (shown) void refresh();
      if (!options.quiet) notifyError(error);
    },
  });
}
