import type { FakeCluster } from "./cluster.ts";
import type { FakeAllocation, FakeEvaluation, FakeJob, FakeNode } from "./model.ts";

/** Rows as the API shows them. Go writes null for an empty list or map. */
export const allocationRow = (cluster: FakeCluster, alloc: FakeAllocation): Record<string, unknown> => ({
  ID: alloc.id,
  JobID: alloc.jobId,
  JobType: String(cluster.jobs.get(alloc.jobId)?.body.Type ?? "batch"),
  JobVersion: alloc.jobVersion,
  Name: `${alloc.jobId}.main[0]`,
  Namespace: cluster.jobs.get(alloc.jobId)?.body.Namespace ?? "default",
  NodeID: `node-${alloc.node}`,
  NodeName: alloc.node,
  TaskGroup: "main",
  ClientStatus: alloc.clientStatus,
  ClientDescription:
    { complete: "All tasks have completed", failed: "Failed tasks" }[alloc.clientStatus as string] ?? "",
  DesiredStatus: alloc.desiredStatus,
  DesiredDescription: alloc.desiredDescription,
  CreateIndex: alloc.createIndex,
  ModifyIndex: alloc.modifyIndex,
  CreateTime: alloc.createMs * 1e6,
  ModifyTime: alloc.createMs * 1e6,
  FollowupEvalID: "",
  RescheduleTracker: null,
  TaskStates: Object.keys(alloc.tasks).length === 0 ? null : structuredClone(alloc.tasks),
});

export const statusRow = (cluster: FakeCluster, job: FakeJob): Record<string, unknown> => {
  const allocations = cluster.of(job.body.ID);
  return {
    ID: job.body.ID,
    Namespace: job.body.Namespace ?? "default",
    Status: cluster.statusOf(job.body.ID),
    Stop: job.stop,
    SubmitTime: job.submitMs * 1e6,
    ModifyIndex: job.modifyIndex,
    Type: "batch",
    Allocs:
      allocations.length === 0
        ? null
        : allocations.map((alloc) => ({
            ID: alloc.id,
            ClientStatus: alloc.clientStatus,
            Group: "main",
            NodeID: alloc.node,
          })),
  };
};

export const jobStub = (cluster: FakeCluster, job: FakeJob, meta: boolean): Record<string, unknown> => ({
  ID: job.body.ID,
  Name: job.body.ID,
  Namespace: job.body.Namespace ?? "default",
  Status: cluster.statusOf(job.body.ID),
  Stop: job.stop,
  SubmitTime: job.submitMs * 1e6,
  ModifyIndex: job.modifyIndex,
  JobModifyIndex: job.jobModifyIndex,
  Type: job.body.Type ?? "batch",
  ...(meta ? { Meta: job.body.Meta ?? null } : {}),
});

export const jobRow = (cluster: FakeCluster, job: FakeJob): Record<string, unknown> => ({
  ...structuredClone(job.body),
  Status: cluster.statusOf(job.body.ID),
  StatusDescription: "",
  Stop: job.stop,
  Version: job.version,
  SubmitTime: job.submitMs * 1e6,
  CreateIndex: job.createIndex,
  ModifyIndex: job.modifyIndex,
  JobModifyIndex: job.jobModifyIndex,
});

export const evaluationRow = (evaluation: FakeEvaluation): Record<string, unknown> => ({
  ID: evaluation.id,
  JobID: evaluation.jobId,
  Status: evaluation.status,
  TriggeredBy: evaluation.triggeredBy,
  Type: "batch",
  CreateTime: evaluation.createMs * 1e6,
  FailedTGAllocs: evaluation.failed,
  ModifyIndex: evaluation.index,
});

export const nodeRow = (node: FakeNode, resources: boolean): Record<string, unknown> => ({
  ID: node.id,
  Name: node.name,
  Address: "127.0.0.1",
  Datacenter: "dc1",
  Drain: false,
  NodeClass: "",
  NodePool: "default",
  SchedulingEligibility: node.eligible ? "eligible" : "ineligible",
  Status: node.alive ? "ready" : "down",
  Version: "2.0.5",
  Drivers: Object.fromEntries(
    node.drivers.map((driver) => [
      driver,
      {
        Detected: true,
        Healthy: node.alive,
        Attributes: {
          [`driver.${driver}.os_type`]: node.attributes["kernel.name"],
          [`driver.${driver}`]: "true",
          [`driver.${driver}.version`]: "20.10.24+dfsg1",
          [`driver.${driver}.runtimes`]: "runc",
        },
      },
    ]),
  ),
  ...(resources
    ? {
        NodeResources: {
          Cpu: { CpuShares: node.cpuMhz, ReservableCpuCores: [0, 1], TotalCpuCores: 2 },
          Memory: { MemoryMB: node.memoryMb },
          Disk: { DiskMB: node.diskMb },
          Devices:
            node.gpus === 0
              ? null
              : [
                  {
                    Vendor: "nvidia",
                    Type: "gpu",
                    Name: "A100",
                    Instances: Array.from({ length: node.gpus }, (_, n) => ({ ID: `GPU-${n}`, Healthy: true })),
                  },
                ],
        },
        ReservedResources: { Cpu: { CpuShares: 0 }, Memory: { MemoryMB: 0 }, Disk: { DiskMB: 0 } },
      }
    : {}),
});

/** What the scheduler gave an allocation; devices by their ids. */
export function allocatedResources(cluster: FakeCluster, alloc: FakeAllocation): Record<string, unknown> {
  const tasks = cluster.jobs.get(alloc.jobId)?.body.TaskGroups?.[0]?.Tasks ?? [];
  return {
    Tasks: Object.fromEntries(
      tasks.map(({ Name, Resources }) => [
        Name,
        {
          Cpu: { CpuShares: Resources?.CPU ?? 100 },
          Memory: { MemoryMB: Resources?.MemoryMB ?? 300 },
          Devices:
            Resources?.Devices?.map(({ Count }) => ({
              Vendor: "nvidia",
              Type: "gpu",
              Name: "A100",
              DeviceIDs: Array.from({ length: Count }, (_, n) => `GPU-${n}`),
            })) ?? null,
        },
      ]),
    ),
  };
}
