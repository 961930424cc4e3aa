import type { ErrorCode } from "../../../contracts/errors.ts";
import type { RelayAnswer, RelayCall, RelayRpc } from "../../../contracts/relay.ts";
import { MAX_STREAM_MS, RelayRequest, type RelayReset, type RelayTarget } from "../../../contracts/relay-protocol.ts";
import { ClusterError } from "./cluster-error.ts";
import type { Transport, TransportRequest, TransportResponse } from "./transport.ts";

/** The object of a relay, as far as requests need it. */
export type RelayLink = Pick<RelayRpc, "call" | "cancel">;

export interface RelayTransportOptions {
  link: RelayLink;
  /** Label of the relay, for words. */
  label: string;
  workspace: string;
  target: RelayTarget;
  /** Text of an uploaded kubeconfig; it goes along only when the relay asks for it. */
  kubeconfig?: string;
}

/** A request whose signal never fires ends so soon all the same. */
const DEFAULT_DEADLINE_MS = 60_000;

/** A relay whose connection broke, or that is full, is usually there again so soon. */
const AWAY_SEC = 1;

/** So long an answer to a cancel is waited for. */
const CANCEL_MS = 1_000;

const READ_BYTES = 64 * 1024;

/** What a refusal is to a backend. */
const CODES: Record<RelayReset["code"], ErrorCode> = {
  refused: "UPSTREAM_MISCONFIGURED",
  misconfigured: "UPSTREAM_MISCONFIGURED",
  tls: "UPSTREAM_MISCONFIGURED",
  "kubeconfig-wanted": "UPSTREAM_ERROR",
  connect: "UPSTREAM_ERROR",
  timeout: "UPSTREAM_TIMEOUT",
  cancelled: "UPSTREAM_ERROR",
  busy: "UPSTREAM_ERROR",
  offline: "UPSTREAM_ERROR",
  cut: "UPSTREAM_ERROR",
  protocol: "UPSTREAM_ERROR",
};

/** What runs say that wait for a relay. */
export const offlineWords = (label: string, lastSeenAt: string | null): string =>
  `relay '${label}' is offline, ${lastSeenAt === null ? "it has never connected" : `last seen ${lastSeenAt}`}`;

/**
 * What a probe and a look give as their reason when it was the relay that could not: it says so in its own words.
 * @returns null for words that are not a relay's
 */
export function relayReason(detail: string): "relay-offline" | "tls" | "relay" | null {
  if (!detail.startsWith("relay '")) return null;
  if (/^relay '[^']*' is offline, /.test(detail)) return "relay-offline";
  return /certificate is not trusted|\bTLS\b/.test(detail) ? "tls" : "relay";
}

/**
 * Requests to a cluster through a relay beside it. A request that is on its way when the connection breaks ends as a
 * retryable UPSTREAM_ERROR; nothing is repeated here.
 */
export function relayTransport(options: RelayTransportOptions): Transport {
  const send = async (request: TransportRequest, target: RelayTarget): Promise<{ answer: RelayAnswer; id: string }> => {
    const { method, path, signal, body } = request;
    const headers = Object.fromEntries(
      Object.entries(request.headers).map(([name, value]) => [name.toLowerCase(), value]),
    );
    const deadlineMs = Math.min(MAX_STREAM_MS, request.deadlineMs ?? DEFAULT_DEADLINE_MS);
    const parsed = RelayRequest.safeParse({ method, path, headers, target, deadlineMs });
    if (!parsed.success) {
      const [issue] = parsed.error.issues;
      const where = issue?.path.join(".") ?? "";
      throw new ClusterError("UPSTREAM_MISCONFIGURED", `a request that no relay carries: ${where} ${issue?.message}`, {
        status: null,
        reason: "Refused",
      });
    }
    const id = crypto.randomUUID();
    const call: RelayCall = { id, workspace: options.workspace, request: parsed.data, body: body ?? null };
    return { answer: await until(options.link.call(call), signal, () => options.link.cancel(id)), id };
  };
  return {
    async fetch(request: TransportRequest): Promise<TransportResponse> {
      let { answer, id } = await send(request, options.target);
      // The relay was started anew, or has not heard of this text: nothing was sent to the cluster yet.
      if (!answer.ok && answer.reset.code === "kubeconfig-wanted" && options.target.kind === "kubeconfig") {
        ({ answer, id } = await send(request, { ...options.target, text: options.kubeconfig ?? null }));
      }
      if (!answer.ok) throw errorOf(options.label, answer, request.method !== "GET");
      const cancel = () => options.link.cancel(id);
      return {
        status: answer.status,
        headers: new Headers(answer.headers),
        body: bounded(answer.body, request.signal, cancel),
      };
    },
  };
}

function errorOf(label: string, { reset, lastSeenAt }: Extract<RelayAnswer, { ok: false }>, write: boolean) {
  const { code, message, sent } = reset;
  const words = code === "offline" ? offlineWords(label, lastSeenAt) : `relay '${label}': ${message}`;
  return new ClusterError(CODES[code], words, {
    status: null,
    reason: code === "offline" ? "relay-offline" : code,
    uncertain: write && sent,
    // A pause of the lane, not a failure of the cluster.
    ...(code === "offline" || code === "cut" || code === "busy" ? { retryAfterSec: AWAY_SEC } : {}),
  });
}

/**
 * The answer, or the signal's reason: an AbortSignal does not cross to the object, so a cancel goes after it. It is waited
 * for, since the runtime drops calls that are on their way when the invocation that made them ends.
 */
async function until(
  work: Promise<RelayAnswer>,
  signal: AbortSignal,
  cancel: () => Promise<void>,
): Promise<RelayAnswer> {
  signal.throwIfAborted();
  let stop = (): void => undefined;
  const aborted = new Promise<never>((_, reject) => {
    stop = () => {
      const told = Promise.race([cancel().catch(() => undefined), scheduler.wait(CANCEL_MS)]);
      void told.then(() => reject(signal.reason));
    };
    signal.addEventListener("abort", stop, { once: true });
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/** A body that ends with the signal, and tells the relay when nobody reads it any more. */
function bounded(
  body: ReadableStream<Uint8Array>,
  signal: AbortSignal,
  cancel: () => Promise<void>,
): ReadableStream<Uint8Array> {
  // A plain reader of a stream from an object gets 4 KiB at a time, which costs most of the throughput.
  const reader = body.getReader({ mode: "byob" });
  const drop = async (): Promise<void> => {
    await Promise.all([cancel(), reader.cancel()].map((step) => step.catch(() => undefined)));
  };
  let stop = (): void => undefined;
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        stop = () => {
          controller.error(signal.reason);
          void drop();
        };
        if (signal.aborted) stop();
        else signal.addEventListener("abort", stop, { once: true });
      },
      async pull(controller) {
        const { done, value } = await reader.read(new Uint8Array(READ_BYTES));
        if (signal.aborted) return;
        if (done) {
          signal.removeEventListener("abort", stop);
          controller.close();
        } else if (value) controller.enqueue(value);
      },
      async cancel() {
        signal.removeEventListener("abort", stop);
        await drop();
      },
    },
    { highWaterMark: 0 },
  );
}
