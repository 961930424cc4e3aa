import { Search } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { cx } from "./class.ts";

const SETTLE_MS = 180;

/** A search whose text is in the address: what is typed shows at once, the address follows when the typing pauses. */
export function SearchBox({
  label,
  value,
  onChange,
  className,
}: {
  label: string;
  value: string;
  onChange: (value: string) => void;
  className?: string;
}) {
  const [typed, setTyped] = useState(value);
  const told = useRef(value);
  const timer = useRef(0);
  // The address has changed by other means: back, a link, "clear filter".
  if (value !== told.current) {
    told.current = value;
    setTyped(value);
  }
  useEffect(() => () => clearTimeout(timer.current), []);
  return (
    <span className={cx("relative inline-flex", className)}>
      <Search aria-hidden className="pointer-events-none absolute top-1.75 left-2 size-3.5 text-faint" />
      <input
        type="search"
        aria-label={label}
        placeholder={label}
        value={typed}
        onChange={(event) => {
          const next = event.target.value;
          setTyped(next);
          clearTimeout(timer.current);
          timer.current = window.setTimeout(() => {
            told.current = next;
            onChange(next);
          }, SETTLE_MS);
        }}
        className="h-7 w-full min-w-0 rounded-md border border-line-strong bg-surface pr-2 pl-7"
      />
    </span>
  );
}
