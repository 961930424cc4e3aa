import { describe, test } from "vitest";
import { backendConformance } from "../backends/conformance.ts";
import { kubernetesTarget } from "./kubernetes-target.ts";

if (process.env.KUBECONFIG) backendConformance("a real Kubernetes", kubernetesTarget);
else
  describe.skip("a real Kubernetes", () => {
    test('skipped: KUBECONFIG is not set; eval "$(test/clusters/kubernetes/start)" sets it', () => undefined);
  });
