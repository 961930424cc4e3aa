import { EverdictError } from "../../../contracts/errors.ts";
import { hostKind } from "../../../contracts/reachability.ts";
import type { Transport, TransportRequest, TransportResponse } from "./transport.ts";

export interface DirectOptions {
  /** Address of the API, without query; a path is kept as prefix. */
  address: string;
  /** Reaches what a deployed Worker cannot: addresses, loopback, private names. Development and tests only. */
  allowPrivate: boolean;
  fetch?: typeof fetch;
}

/**
 * The edge's own fetch. In the production profile only public host names are dialled, as a deployed Worker could.
 * @throws EverdictError UPSTREAM_MISCONFIGURED for an address outside the profile
 */
export function directTransport(options: DirectOptions): Transport {
  const base = new URL(options.address);
  if (base.protocol !== "https:" && base.protocol !== "http:")
    throw new EverdictError("UPSTREAM_MISCONFIGURED", "the cluster's address must begin with https:// or http://");
  if (!options.allowPrivate && hostKind(base.hostname) !== "public-name") {
    throw new EverdictError(
      "UPSTREAM_MISCONFIGURED",
      `the control plane cannot dial ${base.hostname} itself; run a relay beside the cluster and name it in 'relay'`,
    );
  }
  const prefix = base.pathname.replace(/\/+$/, "");
  const dial = options.fetch ?? fetch;
  return {
    async fetch(request: TransportRequest): Promise<TransportResponse> {
      const answer = await dial(`${base.origin}${prefix}${request.path}`, {
        method: request.method,
        headers: { ...request.headers },
        redirect: "manual",
        signal: request.signal,
        ...(request.body === undefined ? {} : { body: request.body }),
      });
      return { status: answer.status, headers: answer.headers, body: answer.body };
    },
  };
}
