import { useState } from "react";
import type { Issue } from "../../../contracts/errors.ts";
import { Field, TextArea } from "../../ui/field.tsx";

/** The document that a text holds, or where it stops being one. */
export function readJson(text: string): { ok: true; value: unknown } | { ok: false; message: string } {
  try {
    return { ok: true, value: JSON.parse(text.trim()) };
  } catch (error) {
    return { ok: false, message: error instanceof Error ? error.message : "it is not JSON" };
  }
}

/** A JSON document being typed: Tab indents, and what is wrong stands below it by path. */
export function JsonEditor({
  label,
  hint,
  text,
  onChange,
  issues,
  rows = 22,
}: {
  label: string;
  hint: string;
  text: string;
  onChange: (text: string) => void;
  issues: readonly Issue[];
  rows?: number;
}) {
  const [escaped, setEscaped] = useState(false);
  const parsed = text.trim() === "" ? null : readJson(text);
  const error =
    parsed !== null && !parsed.ok
      ? parsed.message
      : issues.length > 0
        ? `${issues.length === 1 ? "One thing" : `${issues.length} things`} to change`
        : undefined;
  return (
    <div className="flex flex-col gap-2">
      <Field label={label} hint={`${hint} Tab indents; after Escape it leaves the field.`} error={error}>
        {(control) => (
          <TextArea
            {...control}
            rows={rows}
            value={text}
            onChange={(event) => onChange(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === "Escape") setEscaped(true);
              else if (event.key !== "Tab" || escaped || event.shiftKey) setEscaped(false);
              else {
                event.preventDefault();
                const { selectionStart, selectionEnd } = event.currentTarget;
                onChange(`${text.slice(0, selectionStart)}  ${text.slice(selectionEnd)}`);
                const target = event.currentTarget;
                requestAnimationFrame(() => target.setSelectionRange(selectionStart + 2, selectionStart + 2));
              }
            }}
          />
        )}
      </Field>
      {issues.length > 0 && (
        <ul className="flex flex-col gap-1 text-xs">
          {issues.map(({ path, message }) => (
            <li key={`${path} ${message}`} className="text-bad">
              <code>{path || "document"}</code> {message}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
