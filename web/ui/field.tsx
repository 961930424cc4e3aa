import {
  type InputHTMLAttributes,
  type ReactNode,
  type Ref,
  type SelectHTMLAttributes,
  type TextareaHTMLAttributes,
  useId,
} from "react";
import { cx } from "./class.ts";

export const inputClass =
  "w-full rounded-md border border-line-strong bg-surface px-2 text-ink aria-invalid:border-bad-solid disabled:opacity-60";

interface FieldProps {
  label: string;
  /** What it does, and what happens when it is left empty. */
  hint?: ReactNode;
  error?: string | undefined;
  optional?: boolean;
  className?: string;
  /** Gets the ids that tie the control to its label, hint and error. */
  children: (control: { id: string; "aria-describedby"?: string; "aria-invalid"?: true }) => ReactNode;
}

/** A labelled control with its hint and its error. */
export function Field({ label, hint, error, optional, className, children }: FieldProps) {
  const id = useId();
  const describedBy = [hint ? `${id}-hint` : "", error ? `${id}-error` : ""].filter(Boolean).join(" ");
  return (
    <div className={cx("flex flex-col gap-1", className)}>
      <label htmlFor={id} className="font-medium">
        {label}
        {optional && <span className="font-normal text-faint"> optional</span>}
      </label>
      {children({
        id,
        ...(describedBy ? { "aria-describedby": describedBy } : {}),
        ...(error ? { "aria-invalid": true as const } : {}),
      })}
      {hint && (
        <div id={`${id}-hint`} className="text-xs text-muted">
          {hint}
        </div>
      )}
      {error && (
        <div id={`${id}-error`} role="alert" className="text-xs text-bad">
          {error}
        </div>
      )}
    </div>
  );
}

export function Input({
  className,
  mono,
  ...rest
}: InputHTMLAttributes<HTMLInputElement> & { mono?: boolean; ref?: Ref<HTMLInputElement> }) {
  return <input autoComplete="off" {...rest} className={cx(inputClass, "h-8", mono && "font-mono", className)} />;
}

export function TextArea({
  className,
  ...rest
}: TextareaHTMLAttributes<HTMLTextAreaElement> & { ref?: Ref<HTMLTextAreaElement> }) {
  return <textarea spellCheck={false} {...rest} className={cx(inputClass, "py-1.5 font-mono text-xs", className)} />;
}

export function Select({
  className,
  children,
  ...rest
}: SelectHTMLAttributes<HTMLSelectElement> & { ref?: Ref<HTMLSelectElement> }) {
  return (
    <select {...rest} className={cx(inputClass, "h-8 pr-6", className)}>
      {children}
    </select>
  );
}

/** A small select in a filter bar; its label is read out, its first choice says what it filters and what is so without it. */
export function FilterSelect<T extends string>({
  label,
  usual = "all",
  value,
  options,
  onChange,
}: {
  label: string;
  /** What is shown when nothing is chosen. */
  usual?: string;
  value: T | undefined;
  options: readonly { value: T; label: string }[];
  onChange: (value: T | undefined) => void;
}) {
  return (
    <select
      aria-label={label}
      value={value ?? ""}
      onChange={(event) => onChange(event.target.value === "" ? undefined : (event.target.value as T))}
      className={cx(
        // As wide as its longest choice would be wider than the screen, where names are long.
        "h-7 max-w-64 rounded-md border bg-surface px-2 text-sm",
        value === undefined ? "border-line-strong text-muted" : "border-accent text-accent",
      )}
    >
      <option value="">
        {label}: {usual}
      </option>
      {options.map((option) => (
        <option key={option.value} value={option.value}>
          {label}: {option.label}
        </option>
      ))}
    </select>
  );
}
