import { type Client, createClient, type FetchLike } from "../../contracts/client.ts";

/** Reads of the browser's session cookie are same-origin only; nothing else is ever asked. */
const browserFetch: FetchLike = (url, init) => fetch(url, { ...init, credentials: "same-origin" });

export const clientFor = (workspace: string | undefined): Client =>
  createClient({ apiUrl: window.location.origin, workspace, fetch: browserFetch });
