import { NomadRuntime } from "../../../contracts/runtime-spec.ts";
import type { BackendOwner } from "../../../worker/backends/backend.ts";
import { NomadBackend } from "../../../worker/backends/nomad/backend.ts";
import type { NomadSpec } from "../../../worker/backends/nomad/document.ts";
import type { Transport } from "../../../worker/backends/transport/transport.ts";
import { REAL_CLOCK } from "../../support/fake-nomad/clock.ts";
import { FakeNomad } from "../../support/fake-nomad/fake-nomad.ts";
import { HostExecutor } from "../../support/fake-nomad/host-executor.ts";
import type { Target } from "../target.ts";

export function nomadSpec(parts: Partial<NomadSpec> = {}): NomadSpec {
  const spec = NomadRuntime.parse({
    kind: "nomad",
    id: "pool",
    version: "1.0.0",
    addr: "https://nomad.example.com",
    image: "everdict/busybox:1",
    authSecret: "NOMAD_TOKEN",
    cpuMhzPerCore: 1_000,
  });
  return { ...spec, ...parts };
}

/**
 * A fake Nomad in real time, whose tasks are processes of this machine.
 * @param through another way to it than calls in this process
 */
export async function fakeNomadTarget(
  through: (nomad: FakeNomad) => Promise<{ transport: Transport; close(): Promise<void> }> = async (nomad) => ({
    transport: nomad.transport(),
    close: async () => undefined,
  }),
): Promise<Target> {
  const nomad = new FakeNomad({ clock: REAL_CLOCK });
  const executor = new HostExecutor(nomad.cluster);
  nomad.cluster.executor = executor;
  nomad.cluster.registry = (image) =>
    image.startsWith("nowhere/")
      ? `Error response from daemon: pull access denied for ${image}, repository does not exist or may require 'docker login'`
      : null;
  const token = nomad.addToken("3e0f7c0a-6e6b-4a53-9a0b-5f5c7f2f9a11");
  const way = await through(nomad);
  const backend = (owner: BackendOwner, secret: string): NomadBackend =>
    new NomadBackend({ spec: nomadSpec(), owner, transport: way.transport, token: secret });
  const allocationsOf = (name: string) => nomad.cluster.of(name);
  return {
    backend: (owner) => backend(owner, token),
    stranger: (owner) => backend(owner, "00000000-1111-4222-8333-444444444444"),
    image: "everdict/busybox:1",
    missingImage: "nowhere/none:9",
    calls: () => nomad.requests.length,
    loseNextAnswer: () => nomad.faults.plan(/^POST \/v1\/jobs\?/, { kind: "lost-answer" }),
    async removeUnit(name) {
      await nomad.handle("DELETE", `/v1/job/${name}?purge=true`, token);
    },
    async evictUnit(name) {
      for (const alloc of allocationsOf(name)) nomad.cluster.kill(alloc, "alloc is being migrated");
    },
    async leftovers(owner) {
      const prefix = `evd-${owner.object}-`;
      const names = [...nomad.cluster.jobs.keys()].filter((name) => name.startsWith(prefix));
      return {
        units: names.filter((name) => nomad.cluster.statusOf(name) !== "dead").length,
        running: nomad.cluster.allocations.filter(
          ({ jobId, containerAlive }) => jobId.startsWith(prefix) && containerAlive,
        ).length,
        secrets: [...nomad.cluster.variables.keys()].filter((path) => path.includes(prefix)).length,
      };
    },
    async close() {
      await way.close();
      await executor.close();
    },
  };
}
