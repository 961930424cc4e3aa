import { backendConformance } from "../conformance.ts";
import { fakeNomadTarget } from "./fake-target.ts";

backendConformance("a fake Nomad whose tasks are real processes", fakeNomadTarget);
