import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDown, ArrowUp } from "lucide-react";
import { type KeyboardEvent, type MouseEvent, memo, type ReactNode, useCallback, useMemo, useRef } from "react";
import { cx } from "./class.ts";
import { type SortKey, sortRows } from "./sort-rows.ts";
import { ErrorState, Skeleton } from "./states.tsx";

export interface Column<T extends object> {
  /** Also its name in the URL's sort. */
  id: string;
  header: string;
  /** The header is read out, not shown: for boxes and buttons. */
  quiet?: boolean;
  cell: (row: T) => ReactNode;
  /** Present: the column can be sorted by it. Null and undefined come last. */
  sortBy?: (row: T) => SortKey;
  /** Numbers stand right, in figures of one width. */
  numeric?: boolean;
  /** Left out on narrower screens. */
  from?: "sm" | "md" | "lg" | "xl";
  className?: string;
  /** Class of its width. In a virtual table widths are fixed, or columns would jump as other rows come into sight. */
  width?: string;
}

const FROM = { sm: "max-sm:hidden", md: "max-md:hidden", lg: "max-lg:hidden", xl: "max-xl:hidden" };
const ROW_PX = 36;

export interface DataTableProps<T extends object> {
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
export function DataTable<T extends object>(props: DataTableProps<T>) {
  const { label, columns, rows, rowId, error, retry, empty, sort, onSort, onOpen, virtual = false, footer } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const sorted = useMemo(() => {
    const keyOf = columns.find(({ id }) => id === sort?.replace(/^-/, ""))?.sortBy;
    return keyOf && rows ? sortRows(rows, keyOf, sort?.startsWith("-") === true) : (rows ?? []);
  }, [rows, columns, sort]);
  const virtualizer = useVirtualizer({
    count: sorted.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 8,
    enabled: virtual,
    useFlushSync: false,
  });
  // One function for all rows and all renders, so that a row renders when it comes into sight, and not again.
  const opener = useRef(onOpen);
  opener.current = onOpen;
  const open = useCallback((row: object) => opener.current?.(row as T), []);
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
        className={cx("w-full border-collapse text-left", virtual && "table-fixed")}
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
          {rows === undefined && <Held columns={columns as readonly Column<never>[]} />}
          {before > 0 && <tr aria-hidden style={{ height: before }} />}
          {shown.map((row, at) => (
            <Row
              key={rowId(row)}
              id={rowId(row)}
              row={row}
              columns={columns as readonly Column<never>[]}
              index={items ? (items[at]?.index ?? 0) : undefined}
              open={onOpen ? open : undefined}
            />
          ))}
          {after > 0 && <tr aria-hidden style={{ height: after }} />}
        </tbody>
      </table>
      {footer}
    </div>
  );
}

/** Rows held for what is being read, of the height and the columns the real ones will have. */
function Held({ columns }: { columns: readonly Column<never>[] }) {
  return [0, 1, 2, 3, 4, 5, 6, 7].map((row) => (
    <tr key={row} className="h-9 border-t border-line first:border-t-0">
      {columns.map((column, at) => (
        <td key={column.id} className={cx("px-2 sm:px-3", column.from && FROM[column.from])}>
          {!column.quiet && <Skeleton className={cx("h-3", at === 0 ? "w-32 max-w-full" : "w-12 max-w-full")} />}
        </td>
      ))}
    </tr>
  ));
}

interface RowProps {
  id: string;
  row: object;
  columns: readonly Column<never>[];
  /** Position among all rows, of a virtual table. */
  index: number | undefined;
  open: ((row: object) => void) | undefined;
}

const Row = memo(function Row({ id, row, columns, index, open }: RowProps) {
  return (
    <tr
      data-row={id}
      aria-rowindex={index === undefined ? undefined : index + 2}
      onClick={
        open &&
        ((event: MouseEvent) => {
          if (!isInteractive(event.target) && String(window.getSelection()) === "") open(row);
        })
      }
      className={cx("h-9 border-t border-line first:border-t-0", open && "cursor-pointer hover:bg-hover")}
    >
      {columns.map((column) => (
        <td
          key={column.id}
          className={cx(
            "px-2 whitespace-nowrap sm:px-3",
            column.numeric && "text-right tabular-nums",
            column.from && FROM[column.from],
            column.className,
          )}
        >
          {column.cell(row as never)}
        </td>
      ))}
    </tr>
  );
});

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
    "px-2 font-medium whitespace-nowrap sm:px-3",
    column.numeric && "text-right",
    column.from && FROM[column.from],
    column.width,
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
        className="inline-flex h-6 min-w-6 items-center gap-1 rounded font-medium hover:text-ink"
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
