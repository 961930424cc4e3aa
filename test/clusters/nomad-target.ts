import { fetch as undiciFetch } from "undici";
import * as z from "zod";
import { NomadRuntime } from "../../contracts/runtime-spec.ts";
import type { BackendOwner } from "../../worker/backends/backend.ts";
import { NomadBackend } from "../../worker/backends/nomad/backend.ts";
import type { Transport } from "../../worker/backends/transport/transport.ts";
import type { Target } from "../backends/target.ts";

const Jobs = z.array(z.object({ ID: z.string(), Status: z.string() }));
const Allocations = z.array(z.object({ ID: z.string(), ClientStatus: z.string() }));
const Paths = z.array(z.object({ Path: z.string() }));

/**
 * The Nomad cluster of NOMAD_ADDR, with NOMAD_TOKEN and NOMAD_NAMESPACE. The token needs the printed policy, and for the
 * tests alone also alloc-lifecycle (to evict). NOMAD_TEST_IMAGE names an image that the nodes have or can pull.
 */
export async function nomadTarget(): Promise<Target> {
  const address = new URL(process.env.NOMAD_ADDR ?? "http://127.0.0.1:4646").origin;
  const token = process.env.NOMAD_TOKEN ?? null;
  const namespace = process.env.NOMAD_NAMESPACE ?? "default";
  const image = process.env.NOMAD_TEST_IMAGE ?? "busybox:1.36";
  const headers = token === null ? {} : { "x-nomad-token": token };
  let calls = 0;
  let loseNext = false;
  const transport: Transport = {
    async fetch(request) {
      calls++;
      const { body, method, signal } = request;
      const init = { method, headers: { ...request.headers }, redirect: "manual", signal } as const;
      const answer = await undiciFetch(`${address}${request.path}`, body === undefined ? init : { ...init, body });
      if (loseNext && method === "POST" && request.path.startsWith("/v1/jobs?")) {
        loseNext = false;
        await answer.body?.cancel();
        throw new TypeError("the connection broke");
      }
      // SAFETY: undici's stream is Node's web stream; only its reader is used.
      const stream = answer.body as unknown as ReadableStream<Uint8Array> | null;
      return { status: answer.status, headers: new Headers([...answer.headers]), body: stream };
    },
  };
  const call = async (method: string, path: string): Promise<unknown> => {
    const join = path.includes("?") ? "&" : "?";
    const answer = await undiciFetch(`${address}${path}${join}namespace=${namespace}`, { method, headers });
    if (!answer.ok) throw new Error(`${method} ${path}: HTTP ${answer.status} ${await answer.text()}`);
    return answer.json();
  };
  const allocations = async (name: string) =>
    Allocations.parse(await call("GET", `/v1/job/${name}/allocations?all=true`));
  const spec = NomadRuntime.parse({
    kind: "nomad",
    id: "real",
    version: "1.0.0",
    addr: address,
    image,
    namespace,
    cpuMhzPerCore: 1_000,
  });
  const backend = (owner: BackendOwner, secret: string | null) =>
    new NomadBackend({ spec, owner, transport, token: secret });
  return {
    backend: (owner) => backend(owner, token),
    stranger: (owner) => backend(owner, crypto.randomUUID()),
    image,
    missingImage: "127.0.0.1:9/none/none:9",
    calls: () => calls,
    loseNextAnswer() {
      loseNext = true;
    },
    async removeUnit(name) {
      await call("DELETE", `/v1/job/${name}?purge=true`);
    },
    async evictUnit(name) {
      for (const { ID } of await allocations(name)) await call("POST", `/v1/allocation/${ID}/stop`);
    },
    async leftovers(owner) {
      const prefix = `evd-${owner.object}-`;
      const jobs = Jobs.parse(await call("GET", `/v1/jobs?prefix=${prefix}`));
      const states = (await Promise.all(jobs.map(({ ID }) => allocations(ID)))).flat();
      const variables = Paths.parse(await call("GET", `/v1/vars?prefix=nomad/jobs/${prefix}`));
      return {
        units: jobs.filter(({ Status }) => Status !== "dead").length,
        running: states.filter(({ ClientStatus }) => ClientStatus !== "complete" && ClientStatus !== "failed").length,
        secrets: variables.length,
      };
    },
    close: () => Promise.resolve(),
  };
}
