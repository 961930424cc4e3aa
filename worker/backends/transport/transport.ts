/** One request to a cluster's API, relative to its address. */
export interface TransportRequest {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Starts with "/", with the query. */
  path: string;
  headers: Readonly<Record<string, string>>;
  body?: string | undefined;
  /** Ends the request, the reading of its body included. */
  signal: AbortSignal;
  /** When the signal fires, in ms from now, for who carries the request further than a signal goes. */
  deadlineMs?: number;
}

export interface TransportResponse {
  status: number;
  headers: Headers;
  body: ReadableStream<Uint8Array> | null;
}

/**
 * Carries requests to one cluster: directly, or through a relay; a backend cannot tell which. It follows no redirect and
 * adds no credential of its own.
 * @throws whatever the network throws; the signal's reason when it fires
 */
export interface Transport {
  fetch(request: TransportRequest): Promise<TransportResponse>;
}
