/* What of a runtime spec can be edited, and how. Every field of every kind stands here once; a test compares with the contract. */

export type RuntimeKind = "local" | "nomad" | "k8s";

/** A spec while it is edited: of the spec's own shape, with whatever text was typed where a number belongs. */
export type Draft = Record<string, unknown>;

export interface RowColumn {
  name: string;
  label: string;
  placeholder?: string;
  /** Offered instead of free text; the empty one leaves the key out. */
  choices?: readonly string[];
  number?: boolean;
  /** Kept, as an empty text, when nothing is typed. */
  required?: boolean;
}

interface Common {
  /** Path in the spec, with dots. */
  path: string;
  label: string;
  hint: string;
}

export type FieldDef = Common &
  (
    | { as: "text"; placeholder?: string; mono?: boolean }
    | { as: "number"; placeholder?: string; unit?: string }
    | { as: "flag" }
    | { as: "choice"; choices: readonly string[]; empty: string }
    | { as: "secret"; use: "cluster" | "registry" }
    | { as: "relay" }
    | { as: "capabilities" }
    | { as: "list"; item: string; placeholder?: string; empty: unknown }
    | { as: "labels" }
    | { as: "rows"; item: string; columns: readonly RowColumn[] }
  );

export interface Section {
  title: string;
  fields: readonly FieldDef[];
}

const about: Section = {
  title: "About",
  fields: [
    { path: "description", label: "Description", hint: "For people.", as: "text" },
    { path: "tags", label: "Tags", hint: "For filters.", as: "list", item: "tag", empty: [] },
    {
      path: "capabilities",
      label: "Capabilities",
      hint: "What you declare beyond what is derived from the other fields.",
      as: "capabilities",
    },
  ],
};

const envelope: Section = {
  title: "Envelope",
  fields: [
    {
      path: "maxConcurrent",
      label: "Slots",
      hint: "Jobs in flight at once.",
      as: "number",
      placeholder: "20 if empty, 8 with a trace source",
    },
    {
      path: "memoryBudgetMb",
      label: "Memory budget",
      hint: "Cap on the declared memory of all jobs in flight.",
      as: "number",
      unit: "MiB",
      placeholder: "no cap if empty",
    },
    {
      path: "cpuBudget",
      label: "CPU budget",
      hint: "Cap on the declared cpu of all jobs in flight.",
      as: "number",
      unit: "millicores",
      placeholder: "no cap if empty",
    },
    {
      path: "placementTimeoutSec",
      label: "Placement timeout",
      hint: "How long a job may find no node. 0 waits for ever.",
      as: "number",
      unit: "seconds",
      placeholder: "0 if empty",
    },
    {
      path: "gpu",
      label: "GPUs per job",
      hint: "For jobs that ask for none themselves.",
      as: "number",
      placeholder: "0 if empty",
    },
  ],
};

const images: Section = {
  title: "Images",
  fields: [
    {
      path: "image",
      label: "Default image",
      hint: "For a case that names none. Any image with /bin/sh; busybox is enough.",
      as: "text",
      placeholder: "busybox:1.36",
      mono: true,
    },
    {
      path: "imagePullSecret",
      label: "Registry secret",
      hint: 'Name of a secret of use "registry": {host, username, password}.',
      as: "secret",
      use: "registry",
    },
    { path: "gitImage", label: "Git image", hint: "Clones git sources.", as: "text", mono: true },
    {
      path: "browserImage",
      label: "Browser image",
      hint: "One browser per case; makes the runtime capable of browser cases.",
      as: "text",
      mono: true,
    },
  ],
};

const rest: Section = {
  title: "More",
  fields: [
    {
      path: "trustZone",
      label: "Trust zone",
      hint: "What may sit beside what.",
      as: "choice",
      choices: ["runtime", "workspace"],
      empty: "not set",
    },
    {
      path: "externalControl",
      label: "External control",
      hint: "Lets control touch units and nodes that are not ours; off, only units with our labels.",
      as: "flag",
    },
    {
      path: "hostGatewayAddr",
      label: "Host gateway",
      hint: "Address under which jobs reach their host.",
      as: "text",
      mono: true,
    },
    { path: "warmPool.min", label: "Warm topologies, least", hint: "Kept ready.", as: "number", placeholder: "none" },
    {
      path: "warmPool.max",
      label: "Warm topologies, most",
      hint: "At most so many.",
      as: "number",
      placeholder: "none",
    },
    {
      path: "traceSource.kind",
      label: "Trace source",
      hint: "Where traces of topology runs come from.",
      as: "choice",
      choices: ["otel", "mlflow", "langfuse", "langsmith", "phoenix"],
      empty: "none",
    },
    { path: "traceSource.url", label: "Trace source address", hint: "Address of its API.", as: "text", mono: true },
    {
      path: "traceSource.authSecret",
      label: "Trace source secret",
      hint: "Name of the secret that its API wants.",
      as: "secret",
      use: "cluster",
    },
  ],
};

const relay: FieldDef = {
  path: "relay",
  label: "Relay",
  hint: "The machine that carries the API traffic, for clusters that the edge cannot dial.",
  as: "relay",
};

const nomad: readonly Section[] = [
  {
    title: "Cluster",
    fields: [
      {
        path: "addr",
        label: "Address",
        hint: "Of the Nomad API.",
        as: "text",
        placeholder: "https://nomad.example.com",
        mono: true,
      },
      {
        path: "authSecret",
        label: "Token secret",
        hint: "Name of the secret that holds the ACL token.",
        as: "secret",
        use: "cluster",
      },
      relay,
      {
        path: "namespace",
        label: "Namespace",
        hint: "Where jobs are registered.",
        as: "text",
        placeholder: "default if empty",
        mono: true,
      },
      {
        path: "region",
        label: "Region",
        hint: "Of the cluster.",
        as: "text",
        placeholder: "the server's own if empty",
        mono: true,
      },
      {
        path: "datacenters",
        label: "Datacenters",
        hint: "Where jobs may be placed.",
        as: "list",
        item: "datacenter",
        empty: ["*"],
      },
    ],
  },
  envelope,
  images,
  {
    title: "Placement",
    fields: [
      {
        path: "cpuMhzPerCore",
        label: "Clock of a core",
        hint: "Turns declared millicores into MHz. Without it a case that declares cpu is refused.",
        as: "number",
        unit: "MHz",
      },
      {
        path: "runtime",
        label: "Container runtime",
        hint: "Of the docker driver, for example runsc.",
        as: "text",
        mono: true,
      },
      {
        path: "constraints",
        label: "Constraints",
        hint: "All must hold for a node.",
        as: "rows",
        item: "constraint",
        columns: [
          { name: "attribute", label: "Attribute", placeholder: "${node.class}", required: true },
          { name: "operator", label: "Operator", placeholder: "=", required: true },
          { name: "value", label: "Value", placeholder: "gpu", required: true },
        ],
      },
    ],
  },
  rest,
];

const k8s: readonly Section[] = [
  {
    title: "Cluster",
    fields: [
      {
        path: "server",
        label: "API server",
        hint: "With a token secret.",
        as: "text",
        placeholder: "https://k8s.example.com",
        mono: true,
      },
      {
        path: "authSecret",
        label: "Token secret",
        hint: "Name of the secret that holds a bearer token.",
        as: "secret",
        use: "cluster",
      },
      {
        path: "kubeconfigSecret",
        label: "Kubeconfig secret",
        hint: "Name of the secret that holds a whole kubeconfig; used on the relay.",
        as: "secret",
        use: "cluster",
      },
      relay,
      {
        path: "context",
        label: "Context",
        hint: "Of the relay machine's own kubeconfig; the credential stays there.",
        as: "text",
        mono: true,
      },
      {
        path: "namespace",
        label: "Namespace",
        hint: "Where Jobs are made.",
        as: "text",
        placeholder: "default if empty",
        mono: true,
      },
      {
        path: "createNamespace",
        label: "Create the namespace",
        hint: "When it is absent; the credential needs the right to.",
        as: "flag",
      },
    ],
  },
  envelope,
  images,
  {
    title: "Placement",
    fields: [
      { path: "runtimeClass", label: "Runtime class", hint: "For example gvisor.", as: "text", mono: true },
      { path: "nodeSelector", label: "Node selector", hint: "Labels a node must have.", as: "labels" },
      {
        path: "tolerations",
        label: "Tolerations",
        hint: "Taints that jobs put up with.",
        as: "rows",
        item: "toleration",
        columns: [
          { name: "key", label: "Key", placeholder: "gpu" },
          { name: "operator", label: "Operator", choices: ["Exists", "Equal"] },
          { name: "value", label: "Value" },
          { name: "effect", label: "Effect", choices: ["NoSchedule", "PreferNoSchedule", "NoExecute"] },
          { name: "tolerationSeconds", label: "Seconds", number: true },
        ],
      },
    ],
  },
  rest,
];

/** Everything of a kind that can be edited, besides kind, id and version. */
export const SECTIONS: Record<RuntimeKind, readonly Section[]> = {
  local: [about],
  nomad: [about, ...nomad],
  k8s: [about, ...k8s],
};

/** What an untouched form of a kind holds. */
export function emptyDraft(kind: RuntimeKind): Draft {
  const base = { kind, id: "", version: "1.0.0", tags: [] };
  if (kind === "local") return base;
  const cluster = { ...base, image: "busybox:1.36", externalControl: false };
  return kind === "nomad" ? { ...cluster, addr: "", datacenters: ["*"] } : { ...cluster, createNamespace: false };
}

export function read(draft: Draft, path: string): unknown {
  let at: unknown = draft;
  for (const key of path.split(".")) {
    if (typeof at !== "object" || at === null) return undefined;
    at = (at as Draft)[key];
  }
  return at;
}

/** A copy with one value changed; undefined removes the key, and the object around it when it was the last. */
export function write(draft: Draft, path: string, value: unknown): Draft {
  const [key = "", ...below] = path.split(".");
  const next = { ...draft };
  let put = value;
  if (below.length > 0) {
    const inner = next[key];
    const changed = write((typeof inner === "object" && inner !== null ? inner : {}) as Draft, below.join("."), value);
    put = Object.keys(changed).length === 0 ? undefined : changed;
  }
  if (put === undefined) delete next[key];
  else next[key] = put;
  return next;
}

/** A number as soon as it is one; until then what was typed, which the check will name. */
export function numberFrom(text: string): number | string | undefined {
  const trimmed = text.trim();
  if (trimmed === "") return undefined;
  return /^\d{1,15}$/.test(trimmed) ? Number(trimmed) : trimmed;
}

export type Row = Record<string, unknown>;

/** One cell of a row, as typed. */
export function writeCell(row: Row, column: RowColumn, text: string): Row {
  const value = column.number ? numberFrom(text) : text === "" && !column.required ? undefined : text;
  const next = { ...row };
  if (value === undefined) delete next[column.name];
  else next[column.name] = value;
  return next;
}
