import type { ScorecardProgress } from "../../../contracts/scorecard-rpc.ts";
import type { CliContext } from "./context.ts";

const BAR_CHARS = 24;
/** A terminal is redrawn, and a plain line printed, no more often than this. */
const REDRAW_MS = 100;
const LINE_MS = 2_000;

/** A scorecard's progress: one line that is redrawn on a terminal, else a line now and then. */
export class ProgressLine {
  readonly #context: CliContext;
  #drawnAt = Number.NEGATIVE_INFINITY;
  #pending: ScorecardProgress | null = null;
  #drawn = false;

  constructor(context: CliContext) {
    this.#context = context;
  }

  show(progress: ScorecardProgress): void {
    this.#pending = progress;
    const interval = this.#context.err.isTerminal ? REDRAW_MS : LINE_MS;
    if (this.#context.now() - this.#drawnAt >= interval) this.#draw();
  }

  /** Prints what was held back, and leaves the line. */
  close(): void {
    this.#draw();
    if (this.#drawn && this.#context.err.isTerminal) this.#context.err.write("\n");
  }

  #draw(): void {
    if (!this.#pending) return;
    const words = progressWords(this.#pending);
    this.#pending = null;
    this.#drawn = true;
    this.#drawnAt = this.#context.now();
    const { err } = this.#context;
    // CSI K clears what a longer line left.
    err.write(err.isTerminal ? `\r${words.slice(0, Math.max(20, err.columns - 1))}\u001b[K` : `${words}\n`);
  }
}

export function progressWords(progress: ScorecardProgress): string {
  const ended = progress.succeeded + progress.failed + progress.cancelled;
  const filled = progress.total === 0 ? BAR_CHARS : Math.floor((ended / progress.total) * BAR_CHARS);
  const bar = `[${"█".repeat(filled)}${"░".repeat(BAR_CHARS - filled)}]`;
  const parts = [`${ended}/${progress.total}`, `${progress.running} running`, `${progress.queued} queued`];
  if (progress.failed > 0) parts.push(`${progress.failed} failed`);
  if (progress.cancelled > 0) parts.push(`${progress.cancelled} cancelled`);
  return `${bar} ${parts.join(", ")}`;
}
