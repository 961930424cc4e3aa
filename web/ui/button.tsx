import type { ButtonHTMLAttributes, ReactNode } from "react";
import { cx } from "./class.ts";

export type ButtonKind = "primary" | "normal" | "quiet" | "danger";

const KINDS: Record<ButtonKind, string> = {
  primary: "bg-accent-solid text-white border-transparent hover:bg-accent-hover",
  normal: "bg-surface text-ink border-line-strong hover:bg-hover",
  quiet: "bg-transparent text-muted border-transparent hover:bg-hover hover:text-ink",
  danger: "bg-surface text-bad border-line-strong hover:bg-bad-soft",
};

export const buttonClass = (kind: ButtonKind = "normal", small = false): string =>
  cx(
    "inline-flex shrink-0 items-center justify-center gap-1.5 rounded-md border font-medium whitespace-nowrap transition-colors select-none",
    small ? "h-6 px-2 text-xs" : "h-7 px-2.5 text-sm",
    KINDS[kind],
  );

interface Props extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, "disabled"> {
  kind?: ButtonKind;
  small?: boolean;
  icon?: ReactNode;
  busy?: boolean;
  /** Why it cannot be pressed now: shown, and read out; the button keeps its place and can be focused. */
  disabledReason?: string | undefined;
}

export function Button({ kind, small, icon, busy, disabledReason, className, children, onClick, ...rest }: Props) {
  const blocked = busy || disabledReason !== undefined;
  return (
    <button
      type="button"
      {...rest}
      aria-disabled={blocked || undefined}
      aria-busy={busy || undefined}
      title={disabledReason ?? rest.title}
      onClick={(event) => {
        if (blocked) event.preventDefault();
        else onClick?.(event);
      }}
      className={cx(buttonClass(kind, small), blocked && "opacity-55", className)}
    >
      {icon}
      {children}
      {disabledReason !== undefined && <span className="sr-only"> ({disabledReason})</span>}
    </button>
  );
}

/** A button that is only a picture; its label is what it is called. */
export function IconButton({
  label,
  className,
  children,
  ...rest
}: Omit<ButtonHTMLAttributes<HTMLButtonElement>, "aria-label"> & { label: string }) {
  return (
    <button
      type="button"
      {...rest}
      aria-label={label}
      title={label}
      className={cx(
        "inline-flex size-6 shrink-0 items-center justify-center rounded text-faint hover:bg-hover hover:text-ink disabled:opacity-50",
        className,
      )}
    >
      {children}
    </button>
  );
}
