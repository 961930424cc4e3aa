export { RunLog } from "../../durable-objects/log/object.ts";
export { Quota } from "../../durable-objects/quota/object.ts";
export { Scheduler } from "../../durable-objects/scheduler/object.ts";
export { ScorecardCoordinator } from "../../durable-objects/scorecard/object.ts";
export { Dispatcher } from "./dispatcher.ts";

export default { fetch: () => new Response("objects under test") };
