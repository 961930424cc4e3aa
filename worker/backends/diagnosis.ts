import type { Failure, FailureClass } from "../../contracts/run.ts";

/*
 * What a cluster's words mean. Rows are data: where the words stand, a pattern, whose fault it is, how long it may heal
 * by itself, and the knob to turn. diagnosis-k8s.ts and diagnosis-nomad.ts hold them; the first row that matches counts.
 */

export type Phase = "schedule" | "image" | "start" | "run" | "collect";

/** Something the cluster said about one unit. */
export interface Sign {
  /** Where it stands, for example pod.condition, container.waiting, event, api; task.event, alloc, evaluation. */
  source: string;
  /** Machine word, for example ErrImagePull; "" when there is none. */
  reason: string;
  message: string;
  /** Seconds it has been so, by the cluster's clock. */
  forSec: number;
}

export interface DiagnosisRow {
  /** Stable code of the failure, for example IMAGE_NOT_FOUND. */
  code: string;
  sources: readonly string[];
  reason?: RegExp;
  message?: RegExp;
  phase: Phase;
  class: FailureClass;
  retryable: boolean;
  /** fail: ends the attempt once the grace is over. wait: heals by itself or by others; bounded by placementTimeoutSec. */
  action: "fail" | "wait";
  /** Seconds it may stand before "fail". */
  graceSec: number;
  /** What happened, in our words, and the knob to turn. */
  hint: string;
}

export interface Diagnosis {
  row: DiagnosisRow;
  sign: Sign;
  /** No row knew it: shown verbatim, counted. */
  unknown: boolean;
}

const STAGES: Record<Phase, Failure["stage"]> = {
  schedule: "dispatch",
  image: "install",
  start: "install",
  run: "run",
  collect: "collect",
};

/** A reason no row knows stays visible for this long before it ends an attempt that cannot start. */
const UNKNOWN_GRACE_SEC = 300;

/** A sign no row knows: shown verbatim, classed infra. */
function unknownRow(phase: Phase): DiagnosisRow {
  return {
    code: "CLUSTER_REASON_UNKNOWN",
    sources: [],
    phase,
    class: "infra",
    retryable: true,
    action: "fail",
    graceSec: UNKNOWN_GRACE_SEC,
    hint: "the cluster gave a reason that is not known here; its own words follow",
  };
}

/**
 * The first row that knows the sign, or a row that shows it verbatim.
 * @param phase of an unknown sign
 */
export function diagnose(table: readonly DiagnosisRow[], sign: Sign, phase: Phase): Diagnosis {
  const row = table.find(
    (candidate) =>
      candidate.sources.includes(sign.source) &&
      (candidate.reason === undefined || candidate.reason.test(sign.reason)) &&
      (candidate.message === undefined || candidate.message.test(sign.message)),
  );
  return row ? { row, sign, unknown: false } : { row: unknownRow(phase), sign, unknown: true };
}

/** Whether the sign has stood so long that the attempt ends. */
export const isOver = ({ row, sign }: Diagnosis): boolean => row.action === "fail" && sign.forSec >= row.graceSec;

/** The cluster's own words in one line. */
export function wordsOf(sign: Pick<Sign, "reason" | "message">): string {
  const message = sign.message.trim().replace(/\s+/g, " ").slice(0, 1_500);
  if (sign.reason === "") return message;
  return message === "" ? sign.reason : `${sign.reason}: ${message}`;
}

/** The failure a diagnosis ends an attempt with: our words, then the cluster's. @param events the infrastructure's words */
export function failureOf(
  { row, sign }: Diagnosis,
  placement: { unit: string; node: string | null; events: readonly string[] },
): Failure {
  const words = wordsOf(sign);
  return {
    stage: STAGES[row.phase],
    class: row.class,
    code: row.code,
    message: (words === "" ? row.hint : `${row.hint} (${words})`).slice(0, 4_000),
    retryable: row.retryable,
    placement: {
      unit: placement.unit.slice(0, 253),
      node: placement.node === null ? null : placement.node.slice(0, 253),
      events: placement.events.slice(0, 50).map((text) => text.slice(0, 2_000)),
    },
  };
}
