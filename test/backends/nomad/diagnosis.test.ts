import { describe, expect, test } from "vitest";
import { diagnose, failureOf, isOver, type Sign } from "../../../worker/backends/diagnosis.ts";
import { NOMAD_DIAGNOSIS } from "../../../worker/backends/diagnosis-nomad.ts";

const sign = (source: string, reason: string, message: string, forSec = 0): Sign => ({
  source,
  reason,
  message,
  forSec,
});
const event = (type: string, message: string) => sign("task.event", type, message);
const pull = (image: string, words: string) => event("Driver Failure", `Failed to pull \`${image}\`: ${words}`);
const DAEMON = "Error response from daemon:";

/** Words of real clusters, docker engines and registries, and what they mean. */
const CASES: [code: string, sign: Sign, hint: RegExp][] = [
  [
    "PAUSE_IMAGE_MISSING",
    event(
      "Setup Failure",
      'failed to setup alloc: pre-run hook "network" failed: failed to create network for alloc: Failed to pull `registry.k8s.io/pause-amd64:3.3`: Error response from daemon: Get "https://registry.k8s.io/v2/"',
    ),
    /infra_image/,
  ],
  [
    "IMAGE_RATE_LIMITED",
    pull(
      "busybox:1.36",
      `${DAEMON} toomanyrequests: You have reached your unauthenticated pull rate limit. https://www.docker.com/increase-rate-limit`,
    ),
    /mirror/,
  ],
  [
    "IMAGE_ACCESS_DENIED",
    pull(
      "acme/app:1",
      `${DAEMON} pull access denied for acme/app, repository does not exist or may require 'docker login': denied: requested access to the resource is denied`,
    ),
    /image = false.*image_delay/,
  ],
  [
    "IMAGE_NOT_FOUND",
    pull("busybox:nope", `${DAEMON} manifest for busybox:nope not found: manifest unknown: manifest unknown`),
    /push it to a registry/,
  ],
  [
    "IMAGE_NAME_INVALID",
    event("Driver Failure", 'Failed to parse image name "Busybox:1": invalid reference format'),
    /image/,
  ],
  [
    "IMAGE_PULL_FAILED",
    pull(
      "everdict/none:9",
      `${DAEMON} Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io on 10.255.255.53:53: no such host`,
    ),
    /docker driver's garbage collection/,
  ],
  [
    "IMAGE_PULL_FAILED",
    pull(
      "127.0.0.1:9/x/y:1",
      `${DAEMON} Get "http://127.0.0.1:9/v2/": dial tcp 127.0.0.1:9: connect: connection refused`,
    ),
    /latest/,
  ],
  [
    "SHELL_MISSING",
    event(
      "Driver Failure",
      `Failed to start container 3385ea96498a: ${DAEMON} failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "/bin/sh": stat /bin/sh: no such file or directory: unknown`,
    ),
    /busybox/,
  ],
  [
    "DRIVER_CONFIG_REFUSED",
    event(
      "Driver Failure",
      'Failed to create container configuration for image "everdict/busybox:1" ("sha256:1e6d"): Docker privileged mode is disabled on this Nomad agent',
    ),
    /plugin "docker"/,
  ],
  [
    "CONTAINER_START_FAILED",
    event(
      "Driver Failure",
      `Failed to start container 3385ea96498a: ${DAEMON} OCI runtime create failed: unknown runtime`,
    ),
    /container runtime/,
  ],
  ["DRIVER_FAILURE", event("Driver Failure", "Failed to connect to docker daemon"), /docker driver/],
  [
    "TASK_CONFIG_INVALID",
    event(
      "Failed Validation",
      '3 errors occurred:\n\t* failed to parse config: \n\t* Unknown variable: There is no variable named "HOME".\n\n',
    ),
    /expression/,
  ],
  [
    "TEMPLATE_FAILED",
    event("Killing", 'Template failed: (dynamic): parse: template: :1: function "braces" not defined'),
    /files/,
  ],
  ["VARIABLE_MISSING", event("Template", "Missing: nomad.var.block(nomad/jobs/t7-late@evd.global)"), /Nomad Variable/],
  [
    "NETWORK_SETUP_FAILED",
    event(
      "Setup Failure",
      'failed to setup alloc: pre-run hook "network" failed: failed to configure networking for alloc: failed to find plugin "bridge" in path [/opt/cni/bin]',
    ),
    /\/opt\/cni\/bin/,
  ],
  ["TASK_SETUP_FAILED", event("Setup Failure", "failed to build task directory: no space left on device"), /prepare/],
  ["DRIVER_MISSING", sign("evaluation", "", "filtered: missing drivers (1 node)"), /docker driver/],
  ["GPU_UNAVAILABLE", sign("evaluation", "", "filtered: missing devices (3 nodes)"), /resources\.gpu/],
  ["QUOTA_EXHAUSTED", sign("evaluation", "", "quota exhausted: memory"), /quota/],
  ["CONSTRAINT_FILTERED", sign("evaluation", "", "filtered: ${attr.kernel.name} = windows (1 node)"), /constraints/],
  ["RESOURCES_EXHAUSTED", sign("evaluation", "", "exhausted: memory (1 node)"), /resources\.memoryMb/],
  ["NO_NODES", sign("evaluation", "", "no node was considered: none is eligible in these datacenters"), /datacenters/],
  ["NODE_LOST", sign("alloc", "lost/stop", "alloc is lost since its node is down"), /stopped answering/],
  ["NODE_LOST", sign("alloc", "unknown/run", ""), /time limit/],
  ["NODE_LOST", sign("alloc", "complete/stop", "alloc is lost since its node is down"), /came back/],
  ["EVICTED", sign("alloc", "complete/stop", "alloc is being migrated"), /drained/],
  ["PREEMPTED", sign("alloc", "complete/evict", "Preempted by alloc ID 1b2e5"), /priority/],
  [
    "STOPPED_BY_OTHERS",
    sign("alloc", "complete/stop", "alloc not needed due to job update"),
    /not by this control plane/,
  ],
  ["OOM_KILLED", event("Terminated", 'Exit Code: 137, Exit Message: "OOM Killed"'), /resources\.memoryMb/],
  [
    "PROGRAM_FAILED",
    event("Terminated", 'Exit Code: 97, Exit Message: "Docker container exited with non-zero exit code: 97"'),
    /log/,
  ],
  [
    "OUTCOME_MISSING",
    event("Terminated", 'Exit Code: 3, Exit Message: "Docker container exited with non-zero exit code: 3"'),
    /without a result/,
  ],
  [
    "OUTCOME_COLLECTED",
    sign("client", "", "state for allocation 718cbca3-72d9-8968-5e06-78768cb52d43 not found on client"),
    /client\.gc_max_allocs/,
  ],
  ["NODE_AWAY", sign("client", "", "No path to node"), /back/],
  ["NOT_STARTED", sign("client", "", 'task "main" not started yet. No logs available'), /not started/],
  ["NAME_CONFLICT", sign("register", "", "Enforcing job modify index 0: job already exists"), /deployment/],
  [
    "NODE_POOL_MISSING",
    sign("register", "", '1 error occurred:\n\t* job "t2-m" is in nonexistent node pool "nope"\n\n'),
    /pool/,
  ],
  [
    "JOB_REFUSED",
    sign("register", "", "1 error occurred:\n\t* job priority must be between [1, 100]\n\n"),
    /constraints/,
  ],
  ["CLUSTER_DENIED", sign("api", "403", "Permission denied"), /authSecret/],
];

describe("Nomad's words", () => {
  test.each(CASES)("%s is told by %j", (code, words, hint) => {
    const found = diagnose(NOMAD_DIAGNOSIS, words, "run");
    expect(found.unknown).toBe(false);
    expect(found.row.code).toBe(code);
    const failure = failureOf(found, { unit: "evd-x", node: "cli1", events: [words.message] });
    expect(failure.message).toMatch(hint);
    if (words.message !== "") expect(failure.message).toContain(words.message.trim().replace(/\s+/g, " ").slice(0, 60));
  });

  test("every row has a case with its text", () => {
    const met = new Set(CASES.map(([, words]) => diagnose(NOMAD_DIAGNOSIS, words, "run").row));
    expect(NOMAD_DIAGNOSIS.filter((row) => !met.has(row)).map(({ code }) => code)).toEqual([]);
  });

  test("words that no row knows are shown as they are, infra and retryable", () => {
    const found = diagnose(NOMAD_DIAGNOSIS, event("Sibling Task Failed", "Task's sibling failed"), "run");
    expect(found.unknown).toBe(true);
    const failure = failureOf(found, { unit: "evd-x", node: null, events: [] });
    expect(failure).toMatchObject({ class: "infra", retryable: true });
    expect(failure.message).toContain("Sibling Task Failed: Task's sibling failed");
  });

  test("a missing variable is given a minute, a failed driver none", () => {
    const missing = (forSec: number) =>
      isOver(diagnose(NOMAD_DIAGNOSIS, sign("task.event", "Template", "Missing: nomad.var.block(x)", forSec), "start"));
    expect([missing(59), missing(60)]).toEqual([false, true]);
    expect(isOver(diagnose(NOMAD_DIAGNOSIS, pull("x", "no such host"), "start"))).toBe(true);
  });

  test("what may heal by waiting never ends an attempt by itself", () => {
    const waits = NOMAD_DIAGNOSIS.filter(({ sources }) => sources.includes("evaluation") || sources.includes("api"));
    expect(waits.length).toBeGreaterThan(5);
    expect(waits.every(({ action }) => action === "wait")).toBe(true);
  });
});
