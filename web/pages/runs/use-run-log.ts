import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import type { Run } from "../../../contracts/run.ts";
import { type LiveState, useLive } from "../../api/live.ts";
import { keyOf, useRead } from "../../api/queries.ts";
import { useSession } from "../../api/session.ts";
import { LogBuffer, type LogChunk, type LogLine } from "./log-lines.ts";

export interface FollowedLog {
  lines: readonly LogLine[];
  dropped: number;
  epoch: number;
  state: LiveState;
}

/**
 * The run's own event stream: output into lines, changes of the run into the cache, so that the whole page is live by one
 * connection. When the stream breaks for good, the last output is read every few seconds instead.
 */
export function useRunLog(id: string): FollowedLog {
  const { workspace } = useSession();
  const queries = useQueryClient();
  const buffer = useRef(new LogBuffer());
  const [shown, setShown] = useState<Omit<FollowedLog, "state">>({ lines: [], dropped: 0, epoch: 0 });
  const [before, setBefore] = useState(id);
  if (before !== id) {
    setBefore(id);
    buffer.current = new LogBuffer();
    setShown({ lines: [], dropped: 0, epoch: 0 });
  }
  const publish = () => {
    const { lines, dropped, epoch } = buffer.current;
    setShown({ lines: [...lines], dropped, epoch });
  };
  const state = useLive({
    name: "stream_run_logs",
    input: { params: { id } },
    enabled: true,
    onEvents(events) {
      const chunks: LogChunk[] = [];
      for (const { event, data } of events) {
        if (event === "log") chunks.push(data as LogChunk);
        if (event === "run") queries.setQueryData(keyOf(workspace, "get_run", { params: { id } }), data as Run);
      }
      if (chunks.length === 0) return;
      buffer.current.add(chunks);
      publish();
    },
  });
  const polled = useRead(
    "get_run_logs",
    { params: { id }, query: { tailBytes: 256 * 1024 } },
    { enabled: state === "polling", every: 4_000 },
  );
  useEffect(() => {
    if (state !== "polling" || polled.data === undefined) return;
    buffer.current = new LogBuffer();
    buffer.current.add([{ epoch: 1, stream: "stdout", offset: null, text: polled.data }]);
    const { lines, dropped } = buffer.current;
    setShown({ lines: [...lines], dropped, epoch: 1 });
  }, [state, polled.data]);
  return { ...shown, state };
}
