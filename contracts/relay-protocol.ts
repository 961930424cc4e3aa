import * as z from "zod";
import { WorkspaceId } from "./names.ts";
import { whole } from "./numbers.ts";

/*
 * What a relay and its object say to each other over one WebSocket. Text messages greet; binary messages are frames of
 * streams: one byte type, four bytes stream number (big endian), payload. Both directions of a stream have credit: who
 * sends more bytes than were granted breaks the protocol and is cut off, so no side ever buffers more than a window.
 */

export const RELAY_PROTOCOL = 1;
/** Largest payload of a data frame, in bytes: small enough that a bulk stream does not hold up the others. */
export const FRAME_BYTES = 64 * 1024;
/** Credit that each direction of a stream starts with, in bytes. */
export const WINDOW_BYTES = 512 * 1024;
/** Streams at once over one relay; 128 windows are 64 MiB of the 128 MiB that an object has. */
export const MAX_STREAMS = 128;
/** Largest body of a request, in bytes: a Job's program is at most 768 KiB, base64 included 1 MiB. */
export const MAX_REQUEST_BYTES = 2 * 1024 * 1024;
/** Largest payload of any other frame, in bytes. */
export const MAX_HEAD_BYTES = 256 * 1024;
/** A relay sends "ping" so often; the platform answers "pong" without waking the object. */
export const PING_MS = 15_000;
/** A socket that was silent for so long is taken for dead, by both sides. */
export const SILENCE_MS = 45_000;
/** Longest life of a stream, in ms. */
export const MAX_STREAM_MS = 3_600_000;

export const PING = "ping";
export const PONG = "pong";

/** Close codes of the object; 4000 to 4999 are free for applications. */
export const CLOSE = { protocol: 4000, replaced: 4001, revoked: 4003, upgrade: 4026 } as const;

/** 16 to 31 are kept for messages inside an upgraded stream (exec, attach): no frame of today has such a type. */
export const FRAME = { open: 1, data: 2, end: 3, head: 4, credit: 5, reset: 6 } as const;
export type FrameType = (typeof FRAME)[keyof typeof FRAME];
const FRAME_TYPES: ReadonlySet<number> = new Set(Object.values(FRAME));

export interface Frame {
  type: FrameType;
  stream: number;
  payload: Uint8Array;
}

const HEADER_BYTES = 5;

/** A frame as it travels. */
export function encodeFrame(type: FrameType, stream: number, payload: Uint8Array = new Uint8Array(0)): Uint8Array {
  const bytes = new Uint8Array(HEADER_BYTES + payload.length);
  bytes[0] = type;
  new DataView(bytes.buffer).setUint32(1, stream);
  bytes.set(payload, HEADER_BYTES);
  return bytes;
}

/** The frame in a binary message, or null when it is none of this protocol. */
export function decodeFrame(bytes: Uint8Array): Frame | null {
  const type = bytes[0] ?? 0;
  if (bytes.length < HEADER_BYTES || !FRAME_TYPES.has(type)) return null;
  const payload = bytes.subarray(HEADER_BYTES);
  if (payload.length > (type === FRAME.data ? FRAME_BYTES : MAX_HEAD_BYTES)) return null;
  const stream = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(1);
  // SAFETY: the set holds exactly the values of FrameType.
  return { type: type as FrameType, stream, payload };
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Payload of a frame that carries JSON. */
export const encodeJson = (value: unknown): Uint8Array => encoder.encode(JSON.stringify(value));

/** The value in a payload, or null when it has another shape. */
export function decodeJson<T>(payload: Uint8Array, shape: z.ZodType<T>): T | null {
  try {
    const parsed = shape.safeParse(JSON.parse(decoder.decode(payload)));
    return parsed.success ? parsed.data : null;
  } catch {
    return null;
  }
}

/** Payload of a credit frame: so many more bytes may be sent. */
export function encodeCredit(bytes: number): Uint8Array {
  const payload = new Uint8Array(4);
  new DataView(payload.buffer).setUint32(0, bytes);
  return payload;
}

export const decodeCredit = (payload: Uint8Array): number =>
  payload.length === 4 ? new DataView(payload.buffer, payload.byteOffset, 4).getUint32(0) : 0;

/** Names that only the relay itself may set: they would change where a request ends or whom it reaches. */
const RESERVED_HEADERS =
  /^(host|connection|content-length|transfer-encoding|te|trailer|upgrade|keep-alive|expect|forwarded|via|proxy-.*|x-forwarded-.*)$/;

const HeaderName = z
  .string()
  .max(100)
  .regex(/^[a-z0-9!#$%&'*+.^_`|~-]+$/, "must be a header name in lower case")
  .refine((name) => !RESERVED_HEADERS.test(name), "is set by the relay itself");
const HeaderValue = z
  .string()
  .max(16_384)
  .regex(/^[\x20-\x7e\x80-\xff]*$/, "must not contain control characters");

const DOT_SEGMENT = /^(\.|%2e){1,2}$/i;

/**
 * Whether a path stays below the address it is put behind, whoever reads it: no second slash at the start, no dot segment
 * however it is written, nothing that ends a request line.
 */
export function isPlainPath(path: string): boolean {
  if (!/^\/(?!\/)[\x21-\x7e]*$/.test(path) || /[\\#]/.test(path)) return false;
  const [beforeQuery = ""] = path.split("?", 1);
  return !beforeQuery
    .split(/\/|%2f|%5c/i)
    .some((segment) => DOT_SEGMENT.test(segment) || /%(0[0-9a-f]|1[0-9a-f]|25|7f)/i.test(segment));
}

/** Which cluster a request goes to, and with whose credential. */
export const RelayTarget = z.discriminatedUnion("kind", [
  z
    .strictObject({
      kind: z.literal("address"),
      url: z
        .string()
        .max(500)
        .regex(/^https?:\/\/[^\s/?#@]+(\/[^\s?#]*)?$/, "must be an http(s) URL without user, query or fragment"),
    })
    .describe("An address the relay's operator allowed; credentials come as headers"),
  z
    .strictObject({ kind: z.literal("context"), context: z.string().min(1).max(253) })
    .describe("A context of the relay machine's own kubeconfig: the credential never leaves that machine"),
  z
    .strictObject({
      kind: z.literal("kubeconfig"),
      /** Keyed hash of the text: an old one of the same secret is dropped when a new one comes. */
      digest: z.string().regex(/^[A-Za-z0-9_-]{16,100}$/),
      secret: z.string().min(1).max(128),
      /** Context in it; null takes its current one. */
      context: z.string().min(1).max(253).nullable(),
      /** Hosts that the secret may be used for. */
      hosts: z.array(z.string().max(300)).max(50),
      /** The text itself, only when the relay has asked for it; null otherwise. */
      text: z
        .string()
        .max(64 * 1024)
        .nullable(),
    })
    .describe("An uploaded kubeconfig, kept in the relay's memory only"),
]);
export type RelayTarget = z.infer<typeof RelayTarget>;

export const RelayRequest = z.strictObject({
  method: z.enum(["GET", "POST", "PUT", "PATCH", "DELETE"]),
  path: z.string().max(16_384).refine(isPlainPath, "must be a plain path below the cluster's address"),
  headers: z
    .record(HeaderName, HeaderValue)
    .refine((headers) => Object.keys(headers).length <= 50, "at most 50 headers"),
  target: RelayTarget,
  deadlineMs: whole(1, MAX_STREAM_MS, "milliseconds").describe("Time that the whole exchange gets"),
});
export type RelayRequest = z.infer<typeof RelayRequest>;

/** Payload of an open frame. */
export const RelayOpen = RelayRequest.extend({
  /** Data frames with a body follow, then an end frame. */
  body: z.boolean(),
  /** First stream of this life of the object: streams that began before are nobody's. */
  first: z.boolean(),
});
export type RelayOpen = z.infer<typeof RelayOpen>;

/** Payload of a head frame: the cluster's answer without its body. */
export const RelayHead = z.strictObject({
  status: whole(100, 599),
  headers: z.array(z.tuple([z.string().max(200), z.string().max(32_768)])).max(200),
});
export type RelayHead = z.infer<typeof RelayHead>;

/** Why a stream ended without its answer. */
export const RESET_CODES = [
  "refused", // the relay's operator does not allow it
  "misconfigured", // the kubeconfig or its credential cannot work
  "kubeconfig-wanted", // send the text along
  "connect", // no connection to the cluster, or it broke
  "tls", // no trusted TLS connection
  "timeout",
  "cancelled",
  "busy", // as many streams as there may be
  "offline", // no relay is connected
  "cut", // the socket broke while the request was on its way
  "protocol",
] as const;

export const RelayReset = z.strictObject({
  code: z.enum(RESET_CODES),
  message: z.string().max(1_000).describe("In words that hold no credential"),
  /** The request may have reached the cluster. */
  sent: z.boolean(),
});
export type RelayReset = z.infer<typeof RelayReset>;

const Name = z.string().max(300);

/** First text message of a relay. */
export const RelayHello = z.strictObject({
  type: z.literal("hello"),
  protocol: whole(0, 1_000),
  instanceId: z.string().min(1).max(100).describe("Random per relay process"),
  version: z.string().max(40),
  hostname: z.string().max(253),
  contexts: z.array(Name).max(100),
  hosts: z.array(Name).max(100),
  exec: z.array(Name).max(50),
});
export type RelayHello = z.infer<typeof RelayHello>;

/** Answer to it. */
export const RelayWelcome = z.strictObject({
  type: z.literal("welcome"),
  workspace: z.union([z.literal("_shared"), WorkspaceId]),
  label: z.string(),
  /** Number of this connection; only grows. */
  generation: z.number().int(),
});
export type RelayWelcome = z.infer<typeof RelayWelcome>;
