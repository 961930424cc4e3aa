import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "vitest";
import { backendConformance } from "../backends/conformance.ts";
import { kubeconfig } from "../support/kubeconfig.ts";
import { RelayLab, relayProcess } from "../support/relay-lab.ts";
import { kubernetesTarget } from "./kubernetes-target.ts";

/* The suite that every backend passes, on the real cluster with its private CA, through a relay's own context. */
if (process.env.KUBECONFIG)
  backendConformance("a real Kubernetes through a relay", async () => {
    const lab = await RelayLab.open();
    const relay = await relayProcess(lab.url, await lab.pair("rly-01", "lab"), ["--allow-context", "prod"]);
    const target = await kubernetesTarget(async ({ token, server, ca }) => {
      await writeFile(join(relay.folder, "kubeconfig"), kubeconfig({ server, ca, user: { token } }));
      await writeFile(join(relay.folder, "ca.crt"), ca ?? "");
      Object.assign(relay.env, {
        KUBECONFIG: join(relay.folder, "kubeconfig"),
        EVERDICT_CA_FILE: join(relay.folder, "ca.crt"),
        EVERDICT_ALLOW_HOST: new URL(server).host,
      });
      await relay.up();
      return {
        transport: lab.through("rly-01", { kind: "context", context: "prod" }),
        token: null,
        bare: lab.through("rly-01", { kind: "address", url: server }),
      };
    });
    return {
      ...target,
      async close() {
        await relay.stop();
        await lab.close();
        await target.close();
      },
    };
  });
else
  describe.skip("a real Kubernetes through a relay", () => {
    test('skipped: KUBECONFIG is not set; eval "$(test/clusters/kubernetes/start)" sets it', () => undefined);
  });
