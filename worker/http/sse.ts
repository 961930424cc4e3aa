export interface SseEvent {
  id?: string;
  event: string;
  data: unknown;
}

/** A comment line so often keeps proxies from closing an idle stream. */
const KEEP_ALIVE_MS = 15_000;
/** After so long a stream ends; clients resume by Last-Event-ID. A stream without end would pin objects awake. */
const MAX_STREAM_MS = 10 * 60_000;

const encoder = new TextEncoder();

/**
 * Server-sent events from a generator; it is ended when the client goes away or the stream's time is up. A null of it says
 * that there was nothing to tell: without, a quiet generator could not be ended.
 */
export function sseResponse(request: Request, events: AsyncGenerator<SseEvent | null>): Response {
  let timer: ReturnType<typeof setInterval> | undefined;
  let gone = false;
  const stop = () => {
    gone = true;
    clearInterval(timer);
  };
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(encoder.encode("retry: 2000\n\n"));
      timer = setInterval(() => {
        try {
          controller.enqueue(encoder.encode(": keep-alive\n\n"));
        } catch {
          stop();
        }
      }, KEEP_ALIVE_MS);
      const until = Date.now() + MAX_STREAM_MS;
      const pump = async () => {
        try {
          for await (const event of events) {
            if (gone || Date.now() > until) break;
            if (event !== null) controller.enqueue(encoder.encode(frame(event)));
          }
        } catch (error) {
          if (!gone)
            controller.enqueue(
              encoder.encode(
                frame({ event: "error", data: { message: error instanceof Error ? error.name : "error" } }),
              ),
            );
        } finally {
          stop();
          await events.return(undefined).catch(() => undefined);
          try {
            controller.close();
          } catch {
            // The client has closed it first.
          }
        }
      };
      void pump();
    },
    cancel() {
      stop();
    },
  });
  request.signal.addEventListener("abort", stop, { once: true });
  return new Response(body, {
    headers: {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-store",
      "x-accel-buffering": "no",
    },
  });
}

/** A stream outlives the moment it was asked for: its caller's right is looked at again so often. */
const RECHECK_MS = 15_000;

/** The same stream, ended when `allowed` says no. What cannot be looked up ends nothing. */
export function whileAllowed(response: Response, allowed: () => Promise<boolean>): Response {
  const { body } = response;
  if (!body) return response;
  const reader = body.getReader();
  let timer: ReturnType<typeof setInterval> | undefined;
  const checked = new ReadableStream<Uint8Array>({
    start(controller) {
      timer = setInterval(() => {
        allowed()
          .then((yes) => {
            if (yes) return;
            clearInterval(timer);
            controller.close();
            return reader.cancel();
          })
          .catch(() => undefined);
      }, RECHECK_MS);
    },
    async pull(controller) {
      const { done, value } = await reader.read();
      try {
        if (!done) controller.enqueue(value);
        else controller.close();
      } catch {
        // It was ended meanwhile.
      }
      if (done) clearInterval(timer);
    },
    cancel(reason) {
      clearInterval(timer);
      return reader.cancel(reason);
    },
  });
  return new Response(checked, response);
}

/** One event; JSON holds no line breaks, so nothing in it can forge another event. */
function frame({ id, event, data }: SseEvent): string {
  return `${id === undefined ? "" : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}
