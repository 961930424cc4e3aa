/*
 * Every call of the client is made from one of these rights: its path and its HTTP method follow from it. So the Role to
 * paste and the checks of a probe, which are made from the same list, can never name less or more than is used.
 */

export type Verb = "create" | "get" | "list" | "watch" | "patch" | "delete";

export interface Right {
  /** API group; "" is the core group. */
  group: "" | "apps" | "batch" | "networking.k8s.io" | "metrics.k8s.io";
  version: "v1" | "v1beta1";
  resource: string;
  /** For example "log" of pods/log. */
  subresource?: string;
  verb: Verb;
  /** Cluster-scoped ones need a ClusterRole. */
  scope: "namespace" | "cluster";
  /** Without it jobs still run; the text says what is lost. */
  optional?: string;
  /** Used on what is not ours only: granted and checked where the runtime says externalControl. */
  control?: true;
  /** What it is used for, in the words of a checklist. */
  use: string;
}

const core = (resource: string, verb: Verb, use: string): Right => ({
  group: "",
  version: "v1",
  resource,
  verb,
  scope: "namespace",
  use,
});
const batch = (verb: Verb, use: string): Right => ({
  group: "batch",
  version: "v1",
  resource: "jobs",
  verb,
  scope: "namespace",
  use,
});

/**
 * Whoever may create pods in a namespace can mount every Secret of it, so listing Secrets there (by metadata only, their
 * values never travel) gives away nothing more.
 */
export const RIGHTS = {
  createJob: batch("create", "start jobs"),
  getJob: batch("get", "adopt a job whose start was not answered"),
  listJobs: batch("list", "observe all jobs by one listing"),
  deleteJob: batch("delete", "stop jobs and remove finished ones"),
  listPods: core("pods", "list", "observe all pods by one listing"),
  watchPods: core("pods", "watch", "hear of ends at once"),
  podLog: { ...core("pods", "get", "read results and logs"), subresource: "log" },
  createSecret: core("secrets", "create", "bring program and secrets to a job"),
  patchSecret: core("secrets", "patch", "tie a job's Secret to its job"),
  deleteSecret: core("secrets", "delete", "remove a job's Secret"),
  listSecrets: core("secrets", "list", "remove Secrets whose job never came to be (metadata only)"),
  listEvents: core("events", "list", "say why a pod is not created or cannot start"),
  createNetworkPolicy: {
    ...core("networkpolicies", "create", "cut jobs with network 'none' off"),
    group: "networking.k8s.io",
    optional: "cases with network 'none' are refused",
  },
  getNamespace: {
    ...core("namespaces", "get", "tell a missing namespace from a missing right"),
    optional: "a wrong namespace cannot be told from a missing right",
  },
  listNodes: {
    ...core("nodes", "list", "show operating systems and capacity of the nodes"),
    scope: "cluster",
    optional: "os-windows is not advertised and nodes are not shown",
  },
  listNodeMetrics: {
    ...core("nodes", "list", "show what the nodes use"),
    group: "metrics.k8s.io",
    version: "v1beta1",
    scope: "cluster",
    optional: "the use of nodes is not shown",
  },
  patchNode: {
    ...core("nodes", "patch", "cordon nodes"),
    scope: "cluster",
    control: true,
    optional: "nodes cannot be cordoned from here",
  },
  deletePod: {
    ...core("pods", "delete", "stop pods that belong to no Job"),
    control: true,
    optional: "pods of others cannot be stopped from here",
  },
  scaleDeployment: {
    ...core("deployments", "patch", "resize services"),
    group: "apps",
    subresource: "scale",
    control: true,
    optional: "services cannot be resized from here",
  },
  createNamespace: {
    ...core("namespaces", "create", "create the namespace (createNamespace)"),
    scope: "cluster",
    optional: "createNamespace does nothing",
  },
} as const satisfies Record<string, Right>;

export type RightName = keyof typeof RIGHTS;

/** What a Role to paste is made for. */
export interface RightsWanted {
  /** Also to read the cluster's nodes. */
  nodes: boolean;
  /** Also to act on what is not ours: nodes, pods and services. */
  externalControl?: boolean;
  /** Also to create the namespace. */
  createNamespace?: boolean;
}

/** The rights that a runtime of this kind uses: what the Role grants and the probe asks for. */
export function rightsFor(wanted: RightsWanted): RightName[] {
  const names = Object.keys(RIGHTS).filter((name): name is RightName => name in RIGHTS);
  return names.filter((name) => {
    const right: Right = RIGHTS[name];
    if (right.control === true && wanted.externalControl !== true) return false;
    if (name === "createNamespace") return wanted.createNamespace === true;
    return right.scope === "namespace" || wanted.nodes;
  });
}

/** The rights without which no job runs. */
export const NEEDED_RIGHTS: readonly Right[] = Object.values(RIGHTS).filter((right) => !("optional" in right));

/** As RBAC names it: pods/log. */
export const resourceName = (right: Right): string =>
  right.subresource === undefined ? right.resource : `${right.resource}/${right.subresource}`;

/** In one line of words, for messages: "create jobs.batch". */
export const rightWords = (right: Right): string =>
  `${right.verb} ${resourceName(right)}${right.group === "" ? "" : `.${right.group}`}`;

function rulesOf(rights: readonly Right[]): string {
  const rules = new Map<string, { right: Right; verbs: Set<Verb> }>();
  for (const right of rights) {
    const key = `${right.group}/${resourceName(right)}`;
    const rule = rules.get(key) ?? { right, verbs: new Set<Verb>() };
    rule.verbs.add(right.verb);
    rules.set(key, rule);
  }
  return [...rules.values()]
    .map(
      ({ right, verbs }) =>
        `  - apiGroups: ["${right.group}"]\n    resources: ["${resourceName(right)}"]\n    verbs: [${[...verbs].map((verb) => `"${verb}"`).join(", ")}]\n`,
    )
    .join("");
}

/** Manifest of a ServiceAccount with exactly the rights that are used, to be piped into kubectl apply. */
export function roleManifest(namespace: string, wanted: RightsWanted): string {
  const rights: Right[] = rightsFor(wanted).map((name) => RIGHTS[name]);
  const local = rights.filter(({ scope }) => scope === "namespace");
  const global = rights.filter(({ scope }) => scope === "cluster");
  const account = `  - kind: ServiceAccount\n    name: everdict\n    namespace: ${namespace}\n`;
  const parts = [
    `apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: everdict\n  namespace: ${namespace}\n`,
    `apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n  name: everdict\n  namespace: ${namespace}\nrules:\n${rulesOf(local)}`,
    `apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata:\n  name: everdict\n  namespace: ${namespace}\nroleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: Role\n  name: everdict\nsubjects:\n${account}`,
  ];
  if (global.length > 0) {
    // Named after the namespace: another one's binding of the same name would take these rights away.
    const name = `everdict-${namespace}`;
    parts.push(
      `apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: ${name}\nrules:\n${rulesOf(global)}`,
      `apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata:\n  name: ${name}\nroleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: ClusterRole\n  name: ${name}\nsubjects:\n${account}`,
    );
  }
  return parts.join("---\n");
}
