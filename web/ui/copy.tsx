import { Check, Copy } from "lucide-react";
import { useEffect, useState } from "react";
import { cx } from "./class.ts";

/** Copies a text and says so, also to a screen reader. */
export function CopyButton({ text, label = "Copy", className }: { text: string; label?: string; className?: string }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 1_500);
    return () => clearTimeout(timer);
  }, [copied]);
  return (
    <button
      type="button"
      title={label}
      aria-label={label}
      onClick={(event) => {
        event.stopPropagation();
        event.preventDefault();
        void navigator.clipboard.writeText(text).then(() => setCopied(true));
      }}
      className={cx(
        "inline-flex size-6 shrink-0 items-center justify-center rounded text-faint hover:bg-hover hover:text-ink",
        className,
      )}
    >
      {copied ? <Check aria-hidden className="size-3.5 text-ok" /> : <Copy aria-hidden className="size-3.5" />}
      <span aria-live="polite" className="sr-only">
        {copied ? "copied" : ""}
      </span>
    </button>
  );
}

/** An id in full, in the fixed font, with a button that copies it. */
export function Id({ id, label = "Copy id", className }: { id: string; label?: string; className?: string }) {
  return (
    <span className={cx("inline-flex min-w-0 items-center gap-0.5", className)}>
      <code className="min-w-0 truncate text-xs text-muted" title={id}>
        {id}
      </code>
      <CopyButton text={id} label={label} />
    </span>
  );
}
