import { CircleCheck, CircleDashed, CircleDot, CircleSlash, CircleX, Loader, TriangleAlert } from "lucide-react";
import type { ComponentType, ReactNode } from "react";
import { cx } from "./class.ts";

export type Tone = "ok" | "warn" | "bad" | "info" | "idle" | "accent";

const TONES: Record<Tone, string> = {
  ok: "text-ok bg-ok-soft",
  warn: "text-warn bg-warn-soft",
  bad: "text-bad bg-bad-soft",
  info: "text-info bg-info-soft",
  idle: "text-muted bg-idle-soft",
  accent: "text-accent bg-accent-soft",
};

export const toneText: Record<Tone, string> = {
  ok: "text-ok",
  warn: "text-warn",
  bad: "text-bad",
  info: "text-info",
  idle: "text-faint",
  accent: "text-accent",
};

export const toneFill: Record<Tone, string> = {
  ok: "bg-ok-solid",
  warn: "bg-warn-solid",
  bad: "bg-bad-solid",
  info: "bg-info-solid",
  idle: "bg-idle-solid",
  accent: "bg-accent-solid",
};

/** A word on a tint. Colour never speaks alone. */
export function Chip({
  tone = "idle",
  title,
  className,
  children,
}: {
  tone?: Tone;
  title?: string | undefined;
  className?: string;
  children: ReactNode;
}) {
  return (
    <span
      title={title}
      className={cx(
        "inline-flex h-5 max-w-full items-center gap-1 rounded px-1.5 align-middle text-xs whitespace-nowrap",
        TONES[tone],
        className,
      )}
    >
      {children}
    </span>
  );
}

/** A free label or version, outlined. */
export function Tag({ children, title, className }: { children: ReactNode; title?: string; className?: string }) {
  return (
    <span
      title={title}
      className={cx(
        "inline-flex h-5 items-center rounded border border-line px-1.5 align-middle font-mono text-2xs whitespace-nowrap text-muted",
        className,
      )}
    >
      {children}
    </span>
  );
}

interface StatusWord {
  tone: Tone;
  word: string;
  icon: ComponentType<{ className?: string; "aria-hidden"?: boolean }>;
  help: string;
  moving?: boolean;
}

/** The words of every state that the API names. An unknown one is shown as it is. */
const WORDS: Record<string, StatusWord> = {
  queued: { tone: "idle", word: "Queued", icon: CircleDashed, help: "Waits for its turn" },
  dispatching: { tone: "info", word: "Starting", icon: CircleDot, help: "Given to a machine, not running yet" },
  running: { tone: "info", word: "Running", icon: Loader, help: "The agent is at work", moving: true },
  succeeded: {
    tone: "ok",
    word: "Measured",
    icon: CircleCheck,
    help: "It ran and was graded; the grade may still be low",
  },
  "succeeded-in-part": {
    tone: "warn",
    word: "Measured in part",
    icon: TriangleAlert,
    help: "It ran to its end, but some of its runs have no trustworthy measurement",
  },
  failed: { tone: "bad", word: "Failed", icon: CircleX, help: "There is no trustworthy measurement" },
  cancelled: { tone: "idle", word: "Cancelled", icon: CircleSlash, help: "Somebody ended it" },
  passed: { tone: "ok", word: "Passed", icon: CircleCheck, help: "Every grader scored 1" },
  "not-passed": {
    tone: "warn",
    word: "Not passed",
    icon: TriangleAlert,
    help: "Measured, and a grader scored below 1",
  },
};

export const statusWord = (status: string): StatusWord =>
  WORDS[status] ?? { tone: "idle", word: status, icon: CircleDot, help: status };

export function Status({ status, className, bare = false }: { status: string; className?: string; bare?: boolean }) {
  const { tone, word, icon: Icon, help, moving } = statusWord(status);
  return (
    <span
      title={help}
      className={cx(
        "inline-flex items-center gap-1.5 align-middle text-xs whitespace-nowrap",
        bare ? toneText[tone] : cx("h-5 rounded px-1.5", TONES[tone]),
        className,
      )}
    >
      <Icon aria-hidden className={cx("size-3.5 shrink-0", moving && "animate-spin [animation-duration:3s]")} />
      {word}
    </span>
  );
}

/** A state with a dot and a word, for things that are there or not. */
export function Dot({ tone, children, title }: { tone: Tone; children: ReactNode; title?: string | undefined }) {
  return (
    <span className="inline-flex items-center gap-1.5 whitespace-nowrap" title={title}>
      <span aria-hidden className={cx("size-2 shrink-0 rounded-full", toneFill[tone])} />
      {children}
    </span>
  );
}
