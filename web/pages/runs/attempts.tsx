import type { Attempt, Run } from "../../../contracts/run.ts";
import { cx } from "../../ui/class.ts";
import { Chip, type Tone, toneFill } from "../../ui/status.tsx";
import { Elapsed, Time } from "../../ui/time.tsx";

const STATES: Record<string, { tone: Tone; word: string; help: string }> = {
  granted: { tone: "info", word: "Granted", help: "Given to the holder, which has not started it yet" },
  running: { tone: "info", word: "Running", help: "The holder says that it runs" },
  stopping: { tone: "warn", word: "Stopping", help: "It was told to stop" },
  succeeded: { tone: "ok", word: "Delivered", help: "Its outcome was accepted" },
  failed: { tone: "bad", word: "Failed", help: "It ended without a trustworthy outcome" },
  lost: { tone: "bad", word: "Lost", help: "Nothing was heard from the holder until its lease ended" },
  released: { tone: "idle", word: "Released", help: "The holder gave it back before it started" },
  superseded: { tone: "idle", word: "Superseded", help: "A later attempt took its place; what it says is refused" },
  cancelled: { tone: "idle", word: "Cancelled", help: "The run was cancelled" },
};

/** Who held the run, when, and how each attempt ended. */
export function AttemptsTimeline({ run }: { run: Run }) {
  if (run.attempts.length === 0) return <p className="text-muted">No attempt yet: nobody has been given this run.</p>;
  return (
    <ol className="flex flex-col">
      {run.attempts.map((attempt, at) => (
        <Row key={attempt.epoch} attempt={attempt} last={at === run.attempts.length - 1} />
      ))}
    </ol>
  );
}

function Row({ attempt, last }: { attempt: Attempt; last: boolean }) {
  const { tone, word, help } = STATES[attempt.state] ?? { tone: "idle" as Tone, word: attempt.state, help: "" };
  return (
    <li className="flex gap-3">
      <div className="flex flex-col items-center pt-1.5">
        <span aria-hidden className={cx("size-2 shrink-0 rounded-full", toneFill[tone])} />
        {!last && <span aria-hidden className="w-px flex-1 bg-line" />}
      </div>
      <div className={cx("min-w-0 flex-1", !last && "pb-4")}>
        <div className="flex flex-wrap items-center gap-x-2 gap-y-1">
          <span className="font-medium">Attempt {attempt.epoch}</span>
          <Chip tone={tone} title={help}>
            {word}
          </Chip>
          <code className="text-xs break-all text-muted">{attempt.holder}</code>
        </div>
        <dl className="mt-1 flex flex-wrap gap-x-5 gap-y-0.5 text-xs text-muted [&_dt]:inline [&_dd]:inline [&_dd]:text-ink">
          <div>
            <dt>granted </dt>
            <dd>
              <Time at={attempt.grantedAt} />
            </dd>
          </div>
          {attempt.startedAt !== null && (
            <div>
              <dt>started after </dt>
              <dd>
                <Elapsed from={attempt.grantedAt} to={attempt.startedAt} />
              </dd>
            </div>
          )}
          {attempt.startedAt !== null && (
            <div>
              <dt>{attempt.endedAt === null ? "running for " : "ran for "}</dt>
              <dd>
                <Elapsed from={attempt.startedAt} to={attempt.endedAt} />
              </dd>
            </div>
          )}
          {attempt.externalId !== null && (
            <div className="min-w-0">
              <dt>unit </dt>
              <dd>
                <code className="break-all">{attempt.externalId}</code>
              </dd>
            </div>
          )}
        </dl>
        {attempt.reason !== null && <p className="mt-1 break-words">{attempt.reason}</p>}
      </div>
    </li>
  );
}
