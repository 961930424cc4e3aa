import { beforeAll, beforeEach, vi } from "vitest";
import type { TransportRequest } from "../../worker/backends/transport/transport.ts";
import { FakeNomad, LEAST_RIGHTS } from "../support/fake-nomad/fake-nomad.ts";
import { NOMAD } from "./support.ts";

/** Secret id of the token that the fake knows. */
export const CLUSTER_TOKEN = "3e0f7c0a-6e6b-4a53-9a0b-5f5c7f2f9a11";
/** A runtime on the fake, and its credential. */
export const RUNTIME = { ...NOMAD, constraints: [] };
export const CREDENTIAL = { value: CLUSTER_TOKEN, use: "cluster", hosts: ["nomad.acme.dev"] };

/**
 * A fake Nomad behind the Worker's own fetch, a fresh one for each test; tasks run until a test ends them.
 * @param rights beyond the least ones
 */
export function fakeCluster(rights: readonly string[] = []): { readonly nomad: FakeNomad } {
  let nomad = new FakeNomad();
  // It stays: what a test leaves behind must not dial anybody either.
  beforeAll(() => {
    vi.stubGlobal("fetch", async (input: string | URL | Request, init?: RequestInit) => {
      const request = new Request(input, init);
      const url = new URL(request.url);
      if (url.host !== "nomad.acme.dev") throw new TypeError("no such host");
      // A wait inside the fake would be ended from another request, which workerd does not allow.
      if (url.searchParams.has("index")) await new Promise((resolve) => setTimeout(resolve, 300));
      url.searchParams.delete("index");
      const { status, headers, body } = await nomad.transport().fetch({
        method: request.method as TransportRequest["method"],
        path: url.pathname + url.search,
        headers: Object.fromEntries(request.headers),
        ...(request.body === null ? {} : { body: await request.text() }),
        signal: request.signal,
      });
      return new Response(body, { status, headers });
    });
  });
  beforeEach(() => {
    nomad = new FakeNomad({ namespaces: ["evals"] });
    nomad.addToken(CLUSTER_TOKEN, [...LEAST_RIGHTS, ...rights]);
  });
  return {
    get nomad() {
      return nomad;
    },
  };
}
