import { DurableObject } from "cloudflare:workers";

export class Quota extends DurableObject {}
