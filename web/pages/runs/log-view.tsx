import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDownToLine, ChevronDown, ChevronUp, CircleAlert, Download, Link2, Pause, WrapText } from "lucide-react";
import { useEffect, useMemo, useRef, useState } from "react";
import { useSession } from "../../api/session.ts";
import { Button, IconButton } from "../../ui/button.tsx";
import { cx } from "../../ui/class.ts";
import { notify, notifyError } from "../../ui/notify.ts";
import { Chip } from "../../ui/status.tsx";
import { plural } from "../../ui/words.ts";
import { firstError, type LogLine, pieces } from "./log-lines.ts";
import type { FollowedLog } from "./use-run-log.ts";

const LINE_PX = 20;
const COLORS: Record<string, string> = {
  "ansi-red": "text-bad",
  "ansi-bright-red": "text-bad",
  "ansi-green": "text-ok",
  "ansi-bright-green": "text-ok",
  "ansi-yellow": "text-warn",
  "ansi-bright-yellow": "text-warn",
  "ansi-blue": "text-info",
  "ansi-bright-blue": "text-info",
  "ansi-cyan": "text-info",
  "ansi-bright-cyan": "text-info",
  "ansi-magenta": "text-accent",
  "ansi-bright-magenta": "text-accent",
  "ansi-black": "text-faint",
  "ansi-bright-black": "text-faint",
};

const WORDS: Record<FollowedLog["state"], string> = {
  connecting: "connecting",
  live: "live",
  reconnecting: "reconnecting",
  polling: "asking every few seconds",
  ended: "complete",
};

function Line({ line, found, marked, wrap }: { line: LogLine; found: boolean; marked: boolean; wrap: boolean }) {
  return (
    <div
      className={cx(
        "flex gap-3 px-3 leading-5",
        marked ? "bg-accent-soft" : found && "bg-warn-soft",
        line.stream === "stderr" && "border-l-2 border-warn-solid pl-2.5",
      )}
    >
      <span
        aria-hidden
        data-line
        className="w-12 shrink-0 cursor-pointer text-right text-faint tabular-nums select-none"
      >
        {line.number}
      </span>
      <span className={cx("min-w-0", wrap ? "break-all whitespace-pre-wrap" : "whitespace-pre")}>
        {pieces(line.raw).map(({ text, color, bold, dim, underline }, at) => (
          <span
            // biome-ignore lint/suspicious/noArrayIndexKey: pieces of one line never move
            key={at}
            className={cx(
              color && (COLORS[color] ?? ""),
              bold && "font-semibold",
              dim && "text-muted",
              underline && "underline",
            )}
          >
            {text}
          </span>
        ))}
        {line.stream === "stderr" && <span className="sr-only"> (stderr)</span>}
      </span>
    </div>
  );
}

/** Output as it comes: follows the end until somebody scrolls away, searched, selectable, read by the keyboard. */
export function LogView({
  runId,
  log,
  query,
  onQuery,
  line,
  onLine,
}: {
  runId: string;
  log: FollowedLog;
  query: string;
  onQuery: (query: string) => void;
  line: number | null;
  onLine: (line: number) => void;
}) {
  const { client } = useSession();
  const scroller = useRef<HTMLDivElement>(null);
  const [follow, setFollow] = useState(line === null);
  const [wrap, setWrap] = useState(true);
  // Before the first step nothing of what was found is shown as the current one.
  const [at, setAt] = useState(-1);
  const { lines, state, dropped } = log;
  const needle = query.trim().toLowerCase();
  const hits = useMemo(
    () =>
      needle === "" ? [] : lines.flatMap((each, index) => (each.plain.toLowerCase().includes(needle) ? [index] : [])),
    [lines, needle],
  );
  const hitSet = useMemo(() => new Set(hits), [hits]);
  const virtualizer = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => LINE_PX,
    overscan: 30,
    useFlushSync: false,
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: new lines are what it follows
  useEffect(() => {
    if (follow && lines.length > 0) virtualizer.scrollToIndex(lines.length - 1, { align: "end" });
  }, [follow, lines.length]);
  const jumped = useRef(false);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the line of the link is looked up once, when it is there
  useEffect(() => {
    if (line === null || jumped.current || lines.length < line - dropped) return;
    jumped.current = true;
    virtualizer.scrollToIndex(Math.max(0, line - dropped - 1), { align: "center" });
  }, [lines.length]);

  const show = (index: number) => {
    setFollow(false);
    virtualizer.scrollToIndex(index, { align: "center" });
  };
  const step = (by: number) => {
    if (hits.length === 0) return;
    const next = at < 0 && by < 0 ? hits.length - 1 : (at + by + hits.length) % hits.length;
    setAt(next);
    const index = hits[next];
    if (index === undefined) return;
    show(index);
    onLine(index + dropped + 1);
  };
  const error = firstError(lines);
  const download = async () => {
    try {
      const text = await client.call("get_run_logs", { params: { id: runId }, query: { tailBytes: 8 * 1024 * 1024 } });
      const url = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
      const anchor = Object.assign(document.createElement("a"), { href: url, download: `${runId}.log` });
      anchor.click();
      setTimeout(() => URL.revokeObjectURL(url), 1_000);
    } catch (problem) {
      notifyError(problem);
    }
  };
  return (
    <section aria-label="Log" className="flex min-h-0 flex-col rounded-lg border border-line bg-surface">
      <div className="flex flex-wrap items-center gap-2 border-b border-line p-2">
        <input
          type="search"
          aria-label="Search the log"
          placeholder="Search the log"
          value={query}
          onChange={(event) => {
            onQuery(event.target.value);
            setAt(-1);
          }}
          onKeyDown={(event) => {
            if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
          }}
          className="h-7 w-48 rounded-md border border-line-strong bg-surface px-2"
        />
        <span role="status" className="text-xs text-muted tabular-nums">
          {needle === ""
            ? plural(lines.length, "line")
            : hits.length === 0
              ? "no match"
              : at < 0
                ? plural(hits.length, "match", "matches")
                : `${Math.min(at + 1, hits.length).toLocaleString("en")} of ${hits.length.toLocaleString("en")}`}
        </span>
        {hits.length > 0 && (
          <span className="flex">
            <IconButton label="Previous match" onClick={() => step(-1)}>
              <ChevronUp aria-hidden className="size-4" />
            </IconButton>
            <IconButton label="Next match" onClick={() => step(1)}>
              <ChevronDown aria-hidden className="size-4" />
            </IconButton>
          </span>
        )}
        <Chip tone={state === "live" ? "ok" : state === "ended" ? "idle" : "warn"}>{WORDS[state]}</Chip>
        {log.epoch > 1 && <Chip>attempt {log.epoch}</Chip>}
        <div className="ml-auto flex flex-wrap gap-1">
          {error && (
            <Button
              small
              kind="quiet"
              icon={<CircleAlert aria-hidden className="size-3.5" />}
              onClick={() => show(error.number - dropped - 1)}
            >
              First error
            </Button>
          )}
          <Button
            small
            kind="quiet"
            aria-pressed={wrap}
            icon={<WrapText aria-hidden className="size-3.5" />}
            onClick={() => setWrap(!wrap)}
          >
            Wrap
          </Button>
          <Button
            small
            kind="quiet"
            icon={<Download aria-hidden className="size-3.5" />}
            onClick={() => void download()}
          >
            Download
          </Button>
          {state !== "ended" && (
            <Button
              small
              aria-pressed={follow}
              icon={
                follow ? (
                  <Pause aria-hidden className="size-3.5" />
                ) : (
                  <ArrowDownToLine aria-hidden className="size-3.5" />
                )
              }
              onClick={() => setFollow(!follow)}
            >
              {follow ? "Pause" : "Follow"}
            </Button>
          )}
        </div>
      </div>
      <div
        ref={scroller}
        role="log"
        aria-live="off"
        aria-label="Output"
        tabIndex={0}
        onWheel={(event) => {
          if (event.deltaY < 0) setFollow(false);
        }}
        onTouchMove={() => setFollow(false)}
        onPointerDown={(event) => {
          // On its scroll bar.
          if (event.nativeEvent.offsetX >= event.currentTarget.clientWidth) setFollow(false);
        }}
        onKeyDown={(event) => {
          if (["ArrowUp", "PageUp", "Home"].includes(event.key)) setFollow(false);
          if (event.key === "End") setFollow(true);
        }}
        className="h-[max(20rem,calc(100dvh-17rem))] overflow-auto bg-sunken py-2 font-mono text-xs"
      >
        {dropped > 0 && (
          <p className="px-3 pb-1 text-muted">[{dropped.toLocaleString("en")} lines before this are not shown]</p>
        )}
        {lines.length === 0 && (
          <p className="px-3 text-muted">{state === "ended" ? "It wrote nothing." : "Nothing was written yet."}</p>
        )}
        <div className="relative w-full" style={{ height: virtualizer.getTotalSize() }}>
          {virtualizer.getVirtualItems().map(({ index, key, start }) => {
            const each = lines[index];
            if (!each) return null;
            return (
              // biome-ignore lint/a11y/noStaticElementInteractions: a search marks lines by keyboard
              // biome-ignore lint/a11y/useKeyWithClickEvents: see above
              <div
                key={key}
                data-index={index}
                ref={virtualizer.measureElement}
                onClick={(event) => {
                  if (event.target instanceof HTMLElement && "line" in event.target.dataset) onLine(each.number);
                }}
                className="absolute top-0 left-0 w-full"
                style={{ transform: `translateY(${start}px)` }}
              >
                <Line line={each} found={hitSet.has(index)} marked={each.number === line} wrap={wrap} />
              </div>
            );
          })}
        </div>
      </div>
      {line !== null && (
        <div className="flex items-center gap-2 border-t border-line px-3 py-1.5 text-xs text-muted">
          <Link2 aria-hidden className="size-3.5" />
          Line {line} is in the address of this page.
          <Button
            small
            kind="quiet"
            onClick={() => void navigator.clipboard.writeText(window.location.href).then(() => notify("Link copied"))}
          >
            Copy link
          </Button>
        </div>
      )}
    </section>
  );
}
