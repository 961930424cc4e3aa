import { CircleX } from "lucide-react";
import type { Failure } from "../../../contracts/run.ts";
import { Chip } from "../../ui/status.tsx";
import { plainText } from "./log-lines.ts";
import { CLASS_WORDS, stageWords } from "./run-words.ts";

/** Why there is no measurement: the cause and the knob in words, then the infrastructure's own. */
export function FailurePanel({ failure }: { failure: Failure }) {
  const words = CLASS_WORDS[failure.class];
  return (
    <section aria-label="Why it failed" className="rounded-lg border border-line bg-bad-soft p-3">
      <div className="flex flex-wrap items-center gap-2">
        <CircleX aria-hidden className="size-4 text-bad" />
        <h2 className="font-semibold text-bad">
          {words?.title ?? failure.class}: failed {stageWords(failure.stage)}
        </h2>
        <code className="text-xs text-bad">{failure.code}</code>
        <Chip title={words?.help}>{failure.retryable ? "a retry may help" : "a retry alone will not help"}</Chip>
      </div>
      <p className="mt-2 break-words whitespace-pre-wrap">{failure.message}</p>
      {failure.placement && failure.placement.events.length > 0 && (
        <Verbatim title="In the infrastructure's words" lines={failure.placement.events} />
      )}
      {failure.logTail !== undefined && failure.logTail !== "" && (
        <Verbatim title="Last output" lines={plainText(failure.logTail).replace(/\n$/, "").split("\n").slice(-20)} />
      )}
    </section>
  );
}

export function Verbatim({ title, lines }: { title: string; lines: readonly string[] }) {
  return (
    <div className="mt-3">
      <h3 className="text-xs font-medium text-muted">{title}</h3>
      <pre
        tabIndex={0}
        role="region"
        aria-label={title}
        className="mt-1 max-h-64 overflow-auto rounded border border-line bg-surface p-2 text-xs whitespace-pre-wrap"
      >
        {lines.join("\n")}
      </pre>
    </div>
  );
}
