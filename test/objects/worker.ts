import { DurableObject, WorkerEntrypoint } from "cloudflare:workers";
export class Probe extends DurableObject { hi() { return "hi"; } }
export class Dispatcher extends WorkerEntrypoint { async start() { return []; } }
export default { fetch: () => new Response("objects under test") };
