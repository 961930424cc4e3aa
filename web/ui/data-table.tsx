import {
  type ColumnDef,
  createSortedRowModel,
  rowSortingFeature,
  sortFn_alphanumeric,
  sortFn_text,
  tableFeatures,
  useTable,
} from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDown, ArrowUp } from "lucide-react";
import { type KeyboardEvent, type MouseEvent, type ReactNode, useMemo, useRef } from "react";
import { cx } from "./class.ts";
import { ErrorState, SkeletonRows } from "./states.tsx";

const features = tableFeatures({
  rowSortingFeature,
  sortedRowModel: createSortedRowModel(),
  sortFns: { alphanumeric: sortFn_alphanumeric, text: sortFn_text },
});

export interface Column<T extends object> {
  /** Also its name in the URL's sort. */
  id: string;
  header: string;
  /** The header is read out, not shown: for boxes and buttons. */
  quiet?: boolean;
  cell: (row: T) => ReactNode;
  /** Present: the column can be sorted by it. Null and undefined come last. */
  sortBy?: (row: T) => string | number | null | undefined;
  /** Numbers stand right, in figures of one width. */
  numeric?: boolean;
  /** Left out on narrower screens. */
  from?: "sm" | "md" | "lg" | "xl";
  className?: string;
}

const FROM = { sm: "max-sm:hidden", md: "max-md:hidden", lg: "max-lg:hidden", xl: "max-xl:hidden" };
const ROW_PX = 36;

interface Props<T extends object> {
  /** Read out as the table's name. */
  label: string;
  columns: readonly Column<T>[];
  /** undefined: being read. */
  rows: readonly T[] | undefined;
  rowId: (row: T) => string;
  error?: unknown;
  retry?: () => void;
  /** What stands there when there is no row. */
  empty?: ReactNode;
  /** `name` or `-name`, from the URL. */
  sort?: string | undefined;
  onSort?: (sort: string | undefined) => void;
  /** A click anywhere on a row, and Enter on it. The first cell still holds a link, for the keyboard and for new tabs. */
  onOpen?: (row: T) => void;
  /** Renders only what is seen: for thousands of rows of one height. Takes the height it is given. */
  virtual?: boolean;
  className?: string;
  /** Below the last row: "load more". */
  footer?: ReactNode;
}

const isInteractive = (target: EventTarget): boolean =>
  target instanceof Element && target.closest("a, button, input, select, label, [role=menuitem]") !== null;

/** One table for the whole dashboard: sorted by the URL, walked by j and k, virtual where there are thousands of rows. */
export function DataTable<T extends object>(props: Props<T>) {
  const { label, columns, rows, rowId, error, retry, empty, sort, onSort, onOpen, virtual = false, footer } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const definitions = useMemo(
    () =>
      columns.map(
        (column): ColumnDef<typeof features, T> => ({
          id: column.id,
          header: column.header,
          enableSorting: column.sortBy !== undefined,
          sortUndefined: "last",
          sortFn: column.numeric ? "auto" : "alphanumeric",
          accessorFn: (row) => column.sortBy?.(row) ?? undefined,
        }),
      ),
    [columns],
  );
  const data = useMemo(() => (rows ?? []) as T[], [rows]);
  const sorting = useMemo(
    () => (sort === undefined ? [] : [{ id: sort.replace(/^-/, ""), desc: sort.startsWith("-") }]),
    [sort],
  );
  const table = useTable({
    features,
    columns: definitions,
    data,
    getRowId: (row: T) => rowId(row),
    state: { sorting },
    enableSortingRemoval: true,
    manualSorting: onSort === undefined,
  } as never);
  const sorted = table.getRowModel().rows as unknown as readonly { id: string; original: T }[];
  const virtualizer = useVirtualizer({
    count: sorted.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
    enabled: virtual,
    useFlushSync: false,
  });
  const items = virtual ? virtualizer.getVirtualItems() : null;
  const shown = items ? items.flatMap(({ index }) => sorted[index] ?? []) : sorted;
  const before = items?.[0]?.start ?? 0;
  const after = items ? virtualizer.getTotalSize() - (items.at(-1)?.end ?? 0) : 0;

  if (error !== undefined && error !== null && rows === undefined)
    return <ErrorState error={error} {...(retry ? { retry } : {})} className="m-3" />;
  if (rows !== undefined && rows.length === 0 && empty !== undefined) return <>{empty}</>;

  return (
    <div ref={scroller} tabIndex={0} className={cx("relative overflow-auto rounded-lg", props.className)}>
      <table
        className="w-full border-collapse text-left"
        aria-label={label}
        aria-rowcount={virtual ? sorted.length + 1 : undefined}
        aria-busy={rows === undefined || undefined}
      >
        <thead className="sticky top-0 z-10 bg-surface">
          <tr className="h-8 text-xs text-muted shadow-[inset_0_-1px_0_var(--line)]">
            {columns.map((column) => (
              <Header key={column.id} column={column} sort={sort} onSort={onSort} />
            ))}
          </tr>
        </thead>
        <tbody onKeyDown={walk}>
          {rows === undefined && <SkeletonRows rows={8} columns={columns.length} />}
          {before > 0 && <tr aria-hidden style={{ height: before }} />}
          {shown.map(({ id, original }, at) => (
            <tr
              key={id}
              data-row={id}
              aria-rowindex={items ? (items[at]?.index ?? 0) + 2 : undefined}
              onClick={
                onOpen &&
                ((event: MouseEvent) => {
                  if (!isInteractive(event.target) && String(window.getSelection()) === "") onOpen(original);
                })
              }
              className={cx("h-9 border-t border-line first:border-t-0", onOpen && "cursor-pointer hover:bg-hover")}
            >
              {columns.map((column) => (
                <td
                  key={column.id}
                  className={cx(
                    "px-3 whitespace-nowrap",
                    column.numeric && "text-right tabular-nums",
                    column.from && FROM[column.from],
                    column.className,
                  )}
                >
                  {column.cell(original)}
                </td>
              ))}
            </tr>
          ))}
          {after > 0 && <tr aria-hidden style={{ height: after }} />}
        </tbody>
      </table>
      {footer}
    </div>
  );
}

function Header<T extends object>({
  column,
  sort,
  onSort,
}: {
  column: Column<T>;
  sort: string | undefined;
  onSort: ((sort: string | undefined) => void) | undefined;
}) {
  const dir = sort === column.id ? "ascending" : sort === `-${column.id}` ? "descending" : undefined;
  const classes = cx(
    "px-3 font-medium whitespace-nowrap",
    column.numeric && "text-right",
    column.from && FROM[column.from],
  );
  if (!onSort || !column.sortBy)
    return (
      <th scope="col" className={classes}>
        {column.quiet ? <span className="sr-only">{column.header}</span> : column.header}
      </th>
    );
  const next = dir === undefined ? column.id : dir === "ascending" ? `-${column.id}` : undefined;
  return (
    <th scope="col" aria-sort={dir ?? "none"} className={classes}>
      <button
        type="button"
        onClick={() => onSort(next)}
        className="inline-flex h-6 items-center gap-1 rounded font-medium hover:text-ink"
      >
        {column.header}
        {dir === "ascending" && <ArrowUp aria-hidden className="size-3" />}
        {dir === "descending" && <ArrowDown aria-hidden className="size-3" />}
      </button>
    </th>
  );
}

/** j and k, or the arrows, walk from row to row by their links. */
function walk(event: KeyboardEvent<HTMLTableSectionElement>): void {
  const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
  if (step === undefined || event.metaKey || event.ctrlKey || event.altKey) return;
  if (event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement) return;
  const row = (event.target as Element).closest("tr");
  let next = step > 0 ? row?.nextElementSibling : row?.previousElementSibling;
  while (next && !next.querySelector("a")) next = step > 0 ? next.nextElementSibling : next.previousElementSibling;
  const link = next?.querySelector("a");
  if (!link) return;
  event.preventDefault();
  link.focus();
  link.scrollIntoView({ block: "nearest" });
}
