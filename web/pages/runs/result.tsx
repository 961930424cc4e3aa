import { FileText } from "lucide-react";
import type { Run } from "../../../contracts/run.ts";
import { isTerminal } from "../../../contracts/run-states.ts";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { Figure, Panel } from "../../ui/layout.tsx";
import { Empty } from "../../ui/states.tsx";
import { Status } from "../../ui/status.tsx";
import { bytes, duration, score } from "../../ui/words.ts";
import { FailurePanel, Verbatim } from "./failure.tsx";
import { plainText } from "./log-lines.ts";

type Score = NonNullable<Run["result"]>["scores"][number];

const COLUMNS: readonly Column<Score>[] = [
  { id: "name", header: "Grader", cell: ({ name }) => <span className="font-medium">{name}</span> },
  { id: "kind", header: "Kind", from: "sm", cell: ({ kind }) => <code className="text-xs text-muted">{kind}</code> },
  { id: "pass", header: "Grade", cell: ({ pass }) => <Status status={pass ? "passed" : "not-passed"} /> },
  { id: "score", header: "Score", numeric: true, cell: (each) => score(each.score) },
  { id: "weight", header: "Weight", numeric: true, from: "sm", cell: ({ weight }) => weight },
  {
    id: "detail",
    header: "Expected and found",
    className: "!whitespace-normal break-words min-w-60",
    cell: ({ detail }) => <span className="text-muted">{detail ?? "–"}</span>,
  },
];

/** What was measured, grader by grader. */
export function ResultPanel({ run }: { run: Run }) {
  if (run.failure) return <FailurePanel failure={run.failure} />;
  const { result } = run;
  if (result === null)
    return (
      <div className="rounded-lg border border-line bg-surface">
        <Empty icon={<FileText aria-hidden />} title={isTerminal(run.status) ? "It was not measured" : "No result yet"}>
          {isTerminal(run.status) ? "The run ended before there was anything to grade." : "It is graded when it ends."}
        </Empty>
      </div>
    );
  return (
    <div className="flex flex-col gap-4">
      <div className="flex flex-wrap gap-x-8 gap-y-3">
        <Figure name="Score" value={score(result.score)} note="weighted mean of the graders" />
        <Figure name="Exit code" value={result.exitCode ?? "none"} />
        <Figure name="Took" value={duration(result.durationMs)} />
      </div>
      <Panel title="Graders" flush>
        <DataTable label="Graders" columns={COLUMNS} rows={result.scores} rowId={({ name }) => name} />
      </Panel>
      {result.notes && result.notes.length > 0 && (
        <Panel title="Notes">
          <ul className="list-disc pl-4">
            {result.notes.map((note) => (
              <li key={note}>{note}</li>
            ))}
          </ul>
        </Panel>
      )}
      {result.outputs.length > 0 && (
        <Panel title="Collected files">
          <ul className="flex flex-col gap-1">
            {result.outputs.map(({ path, bytes: size, truncated }) => (
              <li key={path} className="flex gap-3">
                <code className="break-all">{path}</code>
                <span className="text-muted tabular-nums">
                  {bytes(size)}
                  {truncated && ", cut"}
                </span>
              </li>
            ))}
          </ul>
        </Panel>
      )}
      {result.stdoutTail !== "" && (
        <Panel title="Standard output">
          <Verbatim title="The last 4 KiB" lines={[plainText(result.stdoutTail)]} />
        </Panel>
      )}
    </div>
  );
}
