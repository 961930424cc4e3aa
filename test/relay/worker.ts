import type { RelayRecord, RelayRpc } from "../../contracts/relay.ts";
import type { RelayTarget } from "../../contracts/relay-protocol.ts";
import { directTransport } from "../../worker/backends/transport/direct.ts";
import { offlineWords, relayTransport } from "../../worker/backends/transport/relay.ts";
import type { Transport, TransportRequest } from "../../worker/backends/transport/transport.ts";
import type { Env } from "../../worker/environment.ts";
import { relayOf } from "../../worker/environment.ts";
import { asEverdictError, problemResponse } from "../../worker/http/problem.ts";
import { connectRelay } from "../../worker/services/relays.ts";

export { Relay } from "../../durable-objects/relay/object.ts";

/** What the lab asks this Worker to do: one request over the real transport, in the real runtime. */
export interface Ask {
  relay: { id: string; label: string; workspace: string; target: RelayTarget; kubeconfig?: string } | null;
  /** Address for a direct request, to compare with. */
  address: string | null;
  request: Omit<TransportRequest, "signal"> & { deadlineMs: number };
  /** When the signal of the request fires: it cannot come from outside, as the runtime does not see that a client left. */
  abortMs: number | null;
}

const transportOf = (env: Env, { relay, address }: Ask): Transport =>
  relay
    ? relayTransport({ ...relay, link: relayOf(env, relay.id) })
    : directTransport({ address: address ?? "", allowPrivate: true });

async function carry(env: Env, ask: Ask, gone: AbortSignal): Promise<Response> {
  const signal = AbortSignal.any([gone, AbortSignal.timeout(ask.abortMs ?? ask.request.deadlineMs)]);
  try {
    const answer = await transportOf(env, ask).fetch({ ...ask.request, signal });
    return new Response(answer.body, {
      headers: { "x-status": String(answer.status), "x-headers": JSON.stringify([...answer.headers]) },
    });
  } catch (error) {
    const facts = error as Error & { code?: string; reason?: string; uncertain?: boolean };
    const { name, message, code, reason, uncertain } = facts;
    return Response.json({ name, message, code, reason, uncertain }, { status: 599 });
  }
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const { pathname } = new URL(request.url);
    try {
      if (pathname === "/relay/connect") return await connectRelay(env, request);
      if (pathname === "/transport") return await carry(env, await request.json<Ask>(), request.signal);
      const { id, ...record } = await request.json<RelayRecord>();
      const relay: RelayRpc = relayOf(env, id);
      if (pathname === "/pair") await relay.pair({ id, ...record });
      if (pathname === "/revoke") await relay.revoke();
      const state = await relay.state();
      return Response.json({ ...state, words: offlineWords(record.label, state.lastSeenAt) });
    } catch (error) {
      return problemResponse(asEverdictError(error), "req_lab");
    }
  },
} satisfies ExportedHandler<Env>;
