import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";
import { isTerminal } from "../../../contracts/run-states.ts";
import type { Scorecard } from "../../../contracts/scorecard.ts";
import { type LiveState, useLive } from "../../api/live.ts";
import { keyOf, useRead } from "../../api/queries.ts";
import { useSession } from "../../api/session.ts";
import { type Cell, cellsOf, type GridCell, type LiveCell } from "./cells.ts";

const GRID_PAGE = 5_000;
/** The grid is read again at most so often while runs end; the stream tells their states meanwhile. */
const REREAD_MS = 3_000;
/** Changes are shown together, so that thousands of runs do not render thousands of times. */
const SHOW_MS = 300;

export interface FollowedScorecard {
  card: Scorecard | undefined;
  cells: Cell[] | undefined;
  error: unknown;
  retry: () => void;
  live: LiveState;
}

/** A scorecard and all its runs, live: states by the stream, causes and durations by reading the grid again. */
export function useScorecard(id: string): FollowedScorecard {
  const { client, workspace } = useSession();
  const queries = useQueryClient();
  const cardKey = keyOf(workspace, "get_scorecard", { params: { id } });
  const gridKey = [...keyOf(workspace, "get_scorecard_grid", { params: { id } }), "all"];
  const overlay = useRef(new Map<string, LiveCell>());
  const [version, setVersion] = useState(0);
  const timers = useRef<{ show: number; reread: number }>({ show: 0, reread: 0 });

  const [streamBroken, setStreamBroken] = useState(false);
  const card = useRead(
    "get_scorecard",
    { params: { id } },
    { every: (data) => (data && isTerminal(data.status) ? false : streamBroken ? 2_000 : 15_000) },
  );
  const open = card.data !== undefined && !isTerminal(card.data.status);
  const grid = useQuery({
    queryKey: gridKey,
    queryFn: async ({ signal }) => {
      const rows: GridCell[] = [];
      for await (const row of client.all("get_scorecard_grid", { params: { id }, query: { limit: GRID_PAGE }, signal }))
        rows.push(row);
      return rows;
    },
    staleTime: Number.POSITIVE_INFINITY,
    ...(open && streamBroken ? { refetchInterval: REREAD_MS } : {}),
  });

  const reread = () => {
    if (timers.current.reread !== 0) return;
    timers.current.reread = window.setTimeout(() => {
      timers.current.reread = 0;
      void queries.invalidateQueries({ queryKey: gridKey });
    }, REREAD_MS);
  };
  const live = useLive({
    name: "stream_scorecard",
    input: { params: { id } },
    enabled: open,
    onEvents(events) {
      for (const { event, data } of events) {
        if (event === "progress")
          queries.setQueryData<Scorecard>(cardKey, (old) =>
            old ? { ...old, progress: data as Scorecard["progress"] } : old,
          );
        if (event === "run") {
          const run = data as { id: string; status: GridCell["status"]; score: number | null };
          overlay.current.set(run.id, { status: run.status, score: run.score });
          if (isTerminal(run.status)) reread();
        }
        if (event === "end") {
          queries.setQueryData(cardKey, data);
          void queries.invalidateQueries({ queryKey: gridKey });
        }
      }
      if (timers.current.show !== 0) return;
      timers.current.show = window.setTimeout(() => {
        timers.current.show = 0;
        setVersion((now) => now + 1);
      }, SHOW_MS);
    },
  });
  const broken = live === "polling";
  if (broken !== streamBroken) setStreamBroken(broken);

  // biome-ignore lint/correctness/useExhaustiveDependencies: another scorecard starts with nothing known of its runs
  useEffect(() => {
    overlay.current = new Map();
    return () => {
      clearTimeout(timers.current.show);
      clearTimeout(timers.current.reread);
      timers.current = { show: 0, reread: 0 };
    };
  }, [id]);
  // It has ended: what was read before may lack the last runs. Or somebody retried: new runs stand where old ones were.
  const wasOpen = useRef(open);
  useEffect(() => {
    if (card.data === undefined || open === wasOpen.current) return;
    wasOpen.current = open;
    void queries.invalidateQueries({ queryKey: gridKey });
  });

  // biome-ignore lint/correctness/useExhaustiveDependencies: the version says when the overlay has changed
  const cells = useMemo(
    () => (grid.data === undefined ? undefined : cellsOf(grid.data, overlay.current)),
    [grid.data, version],
  );
  return {
    card: card.data,
    cells,
    error: card.error ?? grid.error,
    retry: () => {
      void card.refetch();
      void grid.refetch();
    },
    live,
  };
}
