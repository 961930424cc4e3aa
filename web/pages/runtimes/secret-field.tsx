import { KeyRound } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { useAll } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { Button } from "../../ui/button.tsx";
import { Field, Input } from "../../ui/field.tsx";
import type { FieldDef } from "./fields.ts";

const SecretDialog = lazy(() =>
  import("../workspace/secret-dialog.tsx").then((all) => ({ default: all.SecretDialog })),
);

/** The name of a secret: those that exist are offered, one that does not can be stored in place. */
export function SecretField({
  field,
  shared,
  value,
  onChange,
}: {
  field: Extract<FieldDef, { as: "secret" }>;
  shared: { label: string; hint: string; error: string | undefined; optional: boolean };
  value: string;
  onChange: (value: unknown) => void;
}) {
  const may = useMay();
  const [storing, setStoring] = useState(false);
  const names = useAll("list_secret_names");
  const fitting = (names.data ?? []).filter(({ use }) => use === field.use);
  const known = names.data?.find(({ name }) => name === value);
  const missing = value !== "" && names.data !== undefined && known === undefined;
  const other = known !== undefined && known.use !== field.use;
  return (
    <div className="flex flex-col gap-1">
      <Field {...shared}>
        {(control) => (
          <>
            <Input
              {...control}
              mono
              list={`names-${field.path}`}
              value={value}
              placeholder="none"
              onChange={(event) => onChange(event.target.value === "" ? undefined : event.target.value)}
            />
            <datalist id={`names-${field.path}`}>
              {fitting.map(({ name }) => (
                <option key={name} value={name} />
              ))}
            </datalist>
          </>
        )}
      </Field>
      {missing && (
        <p className="flex flex-wrap items-center gap-2 text-xs text-warn">
          <KeyRound aria-hidden className="size-3.5" />
          {value} is not stored yet.
          {may("put_secret") && (
            <Button small onClick={() => setStoring(true)}>
              Store it
            </Button>
          )}
        </p>
      )}
      {other && (
        <p className="text-xs text-warn">
          {value} is stored for {known.use ?? "no use"}, not for {field.use}.
        </p>
      )}
      {storing && (
        <Suspense>
          <SecretDialog open name={value} use={field.use} onClose={() => setStoring(false)} />
        </Suspense>
      )}
    </div>
  );
}
