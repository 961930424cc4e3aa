import { Button } from "./button.tsx";
import { DataTable, type DataTableProps } from "./data-table.tsx";

interface ListQuery {
  error: unknown;
  refetch: () => unknown;
  /** Present where a list is read page by page. */
  hasNextPage?: boolean;
  isFetchingNextPage?: boolean;
  fetchNextPage?: () => unknown;
}

/** The table of a list in its frame: what went wrong with reading it, and more of it when there is more. */
export function ListTable<T extends object>({
  query,
  ...props
}: Omit<DataTableProps<T>, "error" | "retry" | "footer"> & { query: ListQuery }) {
  return (
    <div className="min-w-0 rounded-lg border border-line bg-surface">
      <DataTable
        {...props}
        error={query.error}
        retry={() => void query.refetch()}
        footer={
          query.hasNextPage ? (
            <div className="border-t border-line p-2 text-center">
              <Button small busy={query.isFetchingNextPage ?? false} onClick={() => void query.fetchNextPage?.()}>
                Load more
              </Button>
            </div>
          ) : undefined
        }
      />
    </div>
  );
}
