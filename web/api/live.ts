import { EventSourceParserStream } from "eventsource-parser/stream";
import { useEffect, useRef, useState } from "react";
import type { CallInput } from "../../contracts/client.ts";
import type { OperationName } from "../../contracts/operations/index.ts";
import { pauseUntilHeard } from "./connection.ts";
import { isCode } from "./errors.ts";
import { useSession } from "./session.ts";

/**
 * live: events come by themselves; reconnecting: the stream broke, a new one is tried; polling: it broke too often, the
 * caller asks instead; ended: there is nothing more to come.
 */
export type LiveState = "connecting" | "live" | "reconnecting" | "polling" | "ended";

export interface LiveEvent {
  event: string;
  data: unknown;
}

/** Failures in a row after which the caller polls while we go on trying. */
const GIVE_WAY_AFTER = 3;
const BACKOFF_MS = [500, 1_000, 2_000, 5_000, 10_000, 20_000];

export interface LiveOptions<K extends OperationName> {
  name: K;
  input: CallInput<K>;
  enabled: boolean;
  onEvents(events: LiveEvent[]): void;
}

/**
 * Follows an event stream and resumes it after a break by Last-Event-ID. Events are handed over in batches, at most one
 * each animation frame, so that a burst renders once.
 */
export function useLive<K extends OperationName>({ name, input, enabled, onEvents }: LiveOptions<K>): LiveState {
  const { client } = useSession();
  const [state, setState] = useState<LiveState>("connecting");
  const handler = useRef(onEvents);
  handler.current = onEvents;
  const key = JSON.stringify(input);

  useEffect(() => {
    if (!enabled) return;
    const stop = new AbortController();
    let lastId: string | null = null;
    let batch: LiveEvent[] = [];
    let timer = 0;
    const flush = () => {
      timer = 0;
      const events = batch;
      batch = [];
      handler.current(events);
    };
    const follow = async (): Promise<"ended" | "broken"> => {
      const headers: Record<string, string> = lastId === null ? {} : { "last-event-id": lastId };
      const asked = { ...(JSON.parse(key) as CallInput<K>), signal: stop.signal };
      const response = await client.open(name, asked, { accept: "text/event-stream", ...headers });
      setState("live");
      const reader = response.body
        ?.pipeThrough(new TextDecoderStream() as unknown as ReadableWritablePair<string, Uint8Array>)
        .pipeThrough(new EventSourceParserStream())
        .getReader();
      if (!reader) return "broken";
      for (let next = await reader.read(); !next.done; next = await reader.read()) {
        const { id, event, data } = next.value;
        if (id !== undefined) lastId = id;
        if (event === "error") return "broken";
        batch.push({ event: event ?? "message", data: JSON.parse(data) });
        // A hidden page gets no animation frames; a timer still comes.
        if (timer === 0) timer = window.setTimeout(flush, 50);
        if (event === "end") return "ended";
      }
      return "broken";
    };
    const loop = async () => {
      for (let failures = 0; !stop.signal.aborted; ) {
        const began = Date.now();
        try {
          if ((await follow()) === "ended") return setState("ended");
          // The server ends a stream every ten minutes; that is no failure.
          if (Date.now() - began > 5_000) failures = 0;
          else failures++;
        } catch (error) {
          if (stop.signal.aborted) return;
          if (isCode(error, "NOT_FOUND", "FORBIDDEN", "UNAUTHENTICATED")) return setState("polling");
          failures++;
        }
        if (stop.signal.aborted) return;
        setState(failures >= GIVE_WAY_AFTER ? "polling" : "reconnecting");
        const ms = BACKOFF_MS[Math.min(failures, BACKOFF_MS.length - 1)] ?? 20_000;
        await pauseUntilHeard(ms * (0.75 + Math.random() / 2));
      }
    };
    setState("connecting");
    void loop();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [client, name, key, enabled]);

  return enabled ? state : "ended";
}
