import { backendConformance } from "./conformance.ts";
import { fakeKubernetesTarget } from "./fake-kubernetes-target.ts";

backendConformance("the fake Kubernetes", async () => fakeKubernetesTarget());
