import type { CallInput, Client } from "../../../contracts/client.ts";
import { EverdictError } from "../../../contracts/errors.ts";
import type { CliContext } from "./context.ts";

export interface StreamEvent {
  id: string | null;
  event: string;
  data: unknown;
}

/** Largest event: a page of log text in JSON. */
const MAX_EVENT_CHARS = 16 * 1024 * 1024;
/** For so long a control plane that cannot be reached is tried again. */
const GIVE_UP_MS = 120_000;
const MAX_PAUSE_MS = 10_000;

/** Server-sent events as they arrive; comments and what is no JSON are left out. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<StreamEvent> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += decoder.decode(value, { stream: true }).replaceAll("\r\n", "\n");
      if (rest.length > MAX_EVENT_CHARS) throw new EverdictError("UPSTREAM_ERROR", "an event of the stream has no end");
      for (let end = rest.indexOf("\n\n"); end !== -1; end = rest.indexOf("\n\n")) {
        const event = parseEvent(rest.slice(0, end));
        rest = rest.slice(end + 2);
        if (event) yield event;
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function parseEvent(block: string): StreamEvent | null {
  let id: string | null = null;
  let event = "message";
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "id") id = value;
    else if (field === "event") event = value;
    else if (field === "data") data.push(value);
  }
  if (data.length === 0) return null;
  try {
    return { id, event, data: JSON.parse(data.join("\n")) };
  } catch {
    return null;
  }
}

/**
 * Follows a stream to its "end" event, opening it again with Last-Event-ID whenever it drops.
 * @throws EverdictError when it is refused, or cannot be opened for two minutes
 */
export async function* followStream<K extends "stream_run_logs" | "stream_scorecard">(
  context: CliContext,
  client: Client,
  name: K,
  input: CallInput<K>,
): AsyncGenerator<StreamEvent> {
  let lastId: string | null = null;
  let aliveAt = context.now();
  for (let failures = 0; ; failures++) {
    let pauseMs = Math.min(250 * 2 ** failures, MAX_PAUSE_MS);
    let opened = false;
    try {
      const headers: Record<string, string> = { accept: "text/event-stream" };
      if (lastId !== null) headers["last-event-id"] = lastId;
      const response = await client.open(name, input, headers);
      opened = true;
      for await (const event of readEvents(response.body ?? new ReadableStream())) {
        if (event.event === "error") break;
        lastId = event.id ?? lastId;
        failures = 0;
        yield event;
        if (event.event === "end") return;
      }
    } catch (error) {
      const known = error instanceof EverdictError ? error : null;
      if (known && !isPassing(known)) throw known;
      if (!opened && context.now() - aliveAt > GIVE_UP_MS) throw known ?? error;
      if (known?.retryAfterSec !== undefined) pauseMs = Math.min(known.retryAfterSec * 1_000, 60_000);
    }
    if (opened) aliveAt = context.now();
    await context.sleep(pauseMs);
  }
}

const isPassing = ({ code }: EverdictError): boolean =>
  code === "UNAVAILABLE" || code === "RATE_LIMITED" || code === "UPSTREAM_TIMEOUT" || code === "INTERNAL";
