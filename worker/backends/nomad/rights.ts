/*
 * What the client may ask of a Nomad server. Each call names its right from this list, the policy text and the probe are
 * made from the same list, so that an operator grants exactly what is used.
 */

/** Calls of the client by right. */
export const RIGHTS = {
  "list-jobs": "list this deployment's jobs",
  "read-job": "read states, allocations and evaluations of jobs",
  "submit-job": "register, plan and stop jobs",
  "read-fs": "read the result file and the logs of an allocation",
  "variables:write": "hand secrets to a job by a variable at nomad/jobs/<job>",
  "variables:destroy": "delete that variable when the job has ended",
  "variables:list": "find variables of jobs that are gone",
  "node:read": "tell the operating systems, sizes and use of the nodes",
  "node:write": "keep work off a node (externalControl only)",
  none: "calls that need no right",
} as const;

export type Right = keyof typeof RIGHTS;

const NAMESPACE_RIGHTS = ["list-jobs", "read-job", "submit-job", "read-fs"] as const satisfies readonly Right[];
const VARIABLE_RIGHTS = ["write", "list", "destroy"] as const;

/**
 * The ACL policy to paste: least privilege for one namespace (N 26). It holds no exec and no management, and a write right
 * on nodes only where the runtime says externalControl; `policy = "write"` would not include variables (N 25).
 */
export function policyText(namespace: string, externalControl = false): string {
  const quoted = (words: readonly string[]): string => words.map((word) => `"${word}"`).join(", ");
  return [
    `namespace "${namespace}" {`,
    `  capabilities = [${quoted(NAMESPACE_RIGHTS)}]`,
    "  variables {",
    `    path "nomad/jobs/*" { capabilities = [${quoted(VARIABLE_RIGHTS)}] }`,
    "  }",
    "}",
    `node { policy = "${externalControl ? "write" : "read"}" }`,
    "",
  ].join("\n");
}

/** How a message asks for a right. */
export function grantText(right: Right, namespace: string): string {
  if (right === "node:read") return 'add node { policy = "read" } to the ACL policy of the token in authSecret';
  if (right === "node:write")
    return 'node { policy = "write" } in the ACL policy of the token in authSecret is what cordoning takes';
  const [family, verb] = right.split(":");
  if (family === "variables")
    return `add variables { path "nomad/jobs/*" { capabilities = ["${verb}"] } } for namespace "${namespace}" to the ACL policy of the token in authSecret`;
  return `add capability "${right}" for namespace "${namespace}" to the ACL policy of the token in authSecret`;
}
