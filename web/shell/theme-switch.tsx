import { Monitor, Moon, Sun } from "lucide-react";
import { cx } from "../ui/class.ts";
import { setTheme, type ThemeChoice, useTheme } from "./theme.ts";

const CHOICES = [
  ["light", Sun],
  ["dark", Moon],
  ["system", Monitor],
] as const satisfies readonly (readonly [ThemeChoice, unknown])[];

export function ThemeSwitch() {
  const now = useTheme();
  return (
    <fieldset className="flex rounded-md border border-line p-px">
      <legend className="sr-only">Theme</legend>
      {CHOICES.map(([choice, Icon]) => (
        <button
          key={choice}
          type="button"
          aria-label={`Theme: ${choice}`}
          title={`Theme: ${choice}`}
          aria-pressed={now === choice}
          onClick={() => setTheme(choice)}
          className={cx(
            "inline-flex size-6 items-center justify-center rounded",
            now === choice ? "bg-hover text-ink" : "text-faint hover:text-ink",
          )}
        >
          <Icon aria-hidden className="size-3.5" />
        </button>
      ))}
    </fieldset>
  );
}
