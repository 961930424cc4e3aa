import { DurableObject } from "cloudflare:workers";

export class Scheduler extends DurableObject {}
