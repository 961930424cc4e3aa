import type { Scorecard } from "../../../contracts/scorecard.ts";
import type { Output } from "../../api/queries.ts";
import { duration, plural } from "../../ui/words.ts";

export type Preview = Output<"preview_scorecard">;
export type Choice = Preview["targets"][number];

/** What will happen when it is submitted now, in sentences. */
export function predict(
  preview: Preview,
  targets: readonly string[],
  concurrency: number,
  last: Scorecard | undefined,
): string[] {
  const perCase = preview.cases > 0 ? preview.runs / preview.cases : 1;
  const out = [
    perCase === 1
      ? `${plural(preview.runs, "run")}, one per case.`
      : `${plural(preview.runs, "run")}: ${plural(preview.cases, "case")} × ${plural(perCase, "trial")}.`,
  ];
  const chosen = targets.flatMap((target) => preview.targets.find((choice) => choice.target === target) ?? []);
  for (const choice of chosen) out.push(effectOn(choice));
  const slots = chosen.reduce((sum, choice) => sum + (choice.slots?.total ?? 0), 0);
  const atOnce = Math.max(1, Math.min(concurrency, slots || concurrency, preview.runs));
  const p50 = last?.summary?.durationMs.p50;
  if (p50 != null)
    out.push(
      `About ${duration(Math.ceil(preview.runs / atOnce) * p50)} of running, ${atOnce} at once, if runs take as long as in the last scorecard of this pair.`,
    );
  return out;
}

function effectOn({ label, online, slots, queued }: Choice): string {
  const before = queued === 0 ? "nothing waits there" : `it queues behind ${plural(queued, "waiting run")}`;
  if (online === false) return `${label} is offline: runs wait until it is back; ${before}.`;
  if (slots === null) return `On ${label} ${before}.`;
  const free = Math.max(0, slots.total - slots.inFlight);
  return `On ${label} ${free} of ${plural(slots.total, "slot")} ${free === 1 ? "is" : "are"} free, and ${before}.`;
}
