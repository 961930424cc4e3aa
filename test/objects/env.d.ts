/// <reference types="@cloudflare/vitest-plugin/types" />

declare namespace Cloudflare {
  interface Env {
    SCHEDULER: DurableObjectNamespace<import("../../durable-objects/scheduler/object.ts").Scheduler>;
    QUOTA: DurableObjectNamespace<import("../../durable-objects/quota/object.ts").Quota>;
    SCORECARD: DurableObjectNamespace<import("../../durable-objects/scorecard/object.ts").ScorecardCoordinator>;
    RUN_LOG: DurableObjectNamespace<import("../../durable-objects/log/object.ts").RunLog>;
  }
}
