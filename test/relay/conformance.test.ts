import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { backendConformance } from "../backends/conformance.ts";
import { fakeKubernetesTarget } from "../backends/fake-kubernetes-target.ts";
import { fakeNomadTarget } from "../backends/nomad/fake-target.ts";
import { certificateAuthority } from "../support/certificates.ts";
import { FakeKubernetes } from "../support/fake-kubernetes/fake-kubernetes.ts";
import { serveFakeKubernetes } from "../support/fake-kubernetes/server.ts";
import { serveFakeNomad } from "../support/fake-nomad/server.ts";
import { kubeconfig } from "../support/kubeconfig.ts";
import { RelayLab, relayProcess } from "../support/relay-lab.ts";

/* The suite that every backend passes, with nothing between it and the cluster but a relay. */
backendConformance("the fake Kubernetes through a relay, by a context of its machine", async () => {
  const token = "a-token";
  const fake = new FakeKubernetes({ namespace: "evals", token });
  const authority = await certificateAuthority();
  const server = await serveFakeKubernetes({ fake, token, tls: { ...(await authority.server()), ca: authority.ca } });
  const lab = await RelayLab.open();
  const allow = ["--allow-context", "prod", "--allow-host", server.address.slice("https://".length)];
  const relay = await relayProcess(lab.url, await lab.pair("rly-01", "lab"), allow);
  const config = join(relay.folder, "kubeconfig");
  await writeFile(config, kubeconfig({ server: server.address, ca: authority.ca, user: { token } }));
  await writeFile(join(relay.folder, "ca.crt"), authority.ca);
  Object.assign(relay.env, { KUBECONFIG: config, EVERDICT_CA_FILE: join(relay.folder, "ca.crt") });
  await relay.up();
  const target = fakeKubernetesTarget({}, fake, {
    transport: lab.through("rly-01", { kind: "context", context: "prod" }),
    token: null,
    bare: lab.through("rly-01", { kind: "address", url: server.address }),
  });
  return {
    ...target,
    async close() {
      await relay.stop();
      await lab.close();
      await server.close();
      await target.close();
    },
  };
});

backendConformance("the fake Nomad through a relay", () =>
  fakeNomadTarget(async (nomad) => {
    const server = await serveFakeNomad(nomad);
    const lab = await RelayLab.open();
    const relay = await relayProcess(lab.url, await lab.pair("rly-01", "lab"), [
      "--allow-host",
      new URL(server.address).host,
    ]);
    await relay.up();
    return {
      transport: lab.through("rly-01", { kind: "address", url: server.address }),
      async close() {
        await relay.stop();
        await lab.close();
        await server.close();
      },
    };
  }),
);
