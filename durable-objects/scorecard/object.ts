import { DurableObject } from "cloudflare:workers";

/** One scorecard: feeds its cases, follows them, sums them up. */
export class ScorecardCoordinator extends DurableObject<unknown> {}
