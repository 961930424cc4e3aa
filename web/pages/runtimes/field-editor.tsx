import { Plus, X } from "lucide-react";
import { useState } from "react";
import { CAPABILITIES } from "../../../contracts/capability-names.ts";
import { Button, IconButton } from "../../ui/button.tsx";
import { Field, Input, Select } from "../../ui/field.tsx";
import { type FieldDef, numberFrom, type Row, type RowColumn, writeCell } from "./fields.ts";
import { SecretField } from "./secret-field.tsx";

interface Props<F extends FieldDef = FieldDef> {
  field: F;
  value: unknown;
  error: string | undefined;
  onChange: (value: unknown) => void;
  relays: readonly { label: string; online: boolean }[];
}

const textOf = (value: unknown): string =>
  typeof value === "string" || typeof value === "number" ? String(value) : "";

/** The editor of one field, by what it is. */
export function FieldEditor(props: Props) {
  const { field, value, error, onChange, relays } = props;
  const shared = {
    label: field.label,
    hint: field.hint,
    error,
    optional: field.path !== "image" && field.path !== "addr",
  };
  switch (field.as) {
    case "text":
      return (
        <Field {...shared}>
          {(control) => (
            <Input
              {...control}
              value={textOf(value)}
              mono={field.mono ?? false}
              placeholder={field.placeholder}
              onChange={(event) => onChange(event.target.value === "" ? undefined : event.target.value)}
            />
          )}
        </Field>
      );
    case "number":
      return (
        <Field {...shared} label={field.unit ? `${field.label} (${field.unit})` : field.label}>
          {(control) => (
            <Input
              {...control}
              inputMode="numeric"
              value={textOf(value)}
              placeholder={field.placeholder}
              onChange={(event) => onChange(numberFrom(event.target.value))}
            />
          )}
        </Field>
      );
    case "flag":
      return (
        <label className="flex items-start gap-2">
          <input
            type="checkbox"
            className="mt-0.5 size-4"
            checked={value === true}
            onChange={(event) => onChange(event.target.checked)}
          />
          <span>
            <span className="font-medium">{field.label}</span>
            <span className="block text-xs text-muted">{field.hint}</span>
          </span>
        </label>
      );
    case "choice":
      return (
        <Field {...shared}>
          {(control) => (
            <Select {...control} value={textOf(value)} onChange={(event) => onChange(event.target.value || undefined)}>
              <option value="">{field.empty}</option>
              {field.choices.map((choice) => (
                <option key={choice}>{choice}</option>
              ))}
            </Select>
          )}
        </Field>
      );
    case "secret":
      return <SecretField field={field} shared={shared} value={textOf(value)} onChange={onChange} />;
    case "relay":
      return (
        <Field {...shared}>
          {(control) => (
            <>
              <Input
                {...control}
                list="relays"
                mono
                value={textOf(value)}
                placeholder="none: the edge dials itself"
                onChange={(event) => onChange(event.target.value === "" ? undefined : event.target.value)}
              />
              <datalist id="relays">
                {relays.map(({ label, online }) => (
                  <option key={label} value={label}>
                    {online ? "online" : "offline"}
                  </option>
                ))}
              </datalist>
            </>
          )}
        </Field>
      );
    case "capabilities":
      return <Capabilities {...props} field={field} />;
    case "list":
      return <ListEditor {...props} field={field} />;
    case "labels":
      return <LabelsEditor {...props} field={field} />;
    case "rows":
      return (
        <Rows
          legend={field.label}
          hint={field.hint}
          error={error}
          item={field.item}
          columns={field.columns}
          rows={Array.isArray(value) ? (value as Row[]) : []}
          onChange={(rows) => onChange(rows.length === 0 ? undefined : rows)}
        />
      );
  }
}

function Capabilities({ field, value, error, onChange }: Props) {
  const chosen = Array.isArray(value) ? (value as string[]) : [];
  return (
    <fieldset className="flex flex-col gap-1">
      <legend className="mb-1 font-medium">
        {field.label} <span className="font-normal text-faint">optional</span>
      </legend>
      <div className="flex flex-wrap gap-x-3 gap-y-1">
        {CAPABILITIES.map((name) => (
          <label key={name} className="inline-flex items-center gap-1.5">
            <input
              type="checkbox"
              className="size-3.5"
              checked={chosen.includes(name)}
              onChange={(event) => {
                const next = event.target.checked ? [...chosen, name] : chosen.filter((other) => other !== name);
                onChange(next.length === 0 ? undefined : next);
              }}
            />
            <span className="text-sm">{name}</span>
          </label>
        ))}
      </div>
      <p className="text-xs text-muted">{field.hint}</p>
      {error && (
        <p role="alert" className="text-xs text-bad">
          {error}
        </p>
      )}
    </fieldset>
  );
}

function ListEditor({ field, value, error, onChange }: Props<Extract<FieldDef, { as: "list" }>>) {
  const column: RowColumn = { name: "value", label: field.label, required: true };
  const items = Array.isArray(value) ? (value as string[]) : [];
  return (
    <Rows
      legend={field.label}
      hint={field.hint}
      error={error}
      item={field.item}
      columns={[column]}
      rows={items.map((item) => ({ value: item }))}
      onChange={(rows) => onChange(rows.length === 0 ? field.empty : rows.map((row) => textOf(row.value)))}
    />
  );
}

const LABEL_COLUMNS: readonly RowColumn[] = [
  { name: "key", label: "Label", placeholder: "pool", required: true },
  { name: "value", label: "Value", placeholder: "eval", required: true },
];

/** Rows while they are typed: two with one key would be one in the record. */
function LabelsEditor({ field, value, error, onChange }: Props) {
  const record = (typeof value === "object" && value !== null ? value : {}) as Record<string, string>;
  const [typed, setTyped] = useState<Row[] | null>(null);
  const rows = typed ?? Object.entries(record).map(([key, label]) => ({ key, value: label }));
  return (
    <Rows
      legend={field.label}
      hint={field.hint}
      error={error}
      item="label"
      columns={LABEL_COLUMNS}
      rows={rows}
      onChange={(next) => {
        setTyped(next);
        onChange(
          next.length === 0 ? undefined : Object.fromEntries(next.map((row) => [textOf(row.key), textOf(row.value)])),
        );
      }}
    />
  );
}

function Rows({
  legend,
  hint,
  error,
  item,
  columns,
  rows,
  onChange,
}: {
  legend: string;
  hint: string;
  error: string | undefined;
  item: string;
  columns: readonly RowColumn[];
  rows: readonly Row[];
  onChange: (rows: Row[]) => void;
}) {
  const set = (at: number, column: RowColumn, text: string) =>
    onChange(rows.map((row, index) => (index === at ? writeCell(row, column, text) : row)));
  const blank: Row = Object.fromEntries(columns.filter(({ required }) => required).map(({ name }) => [name, ""]));
  return (
    <fieldset className="flex min-w-0 flex-col gap-1.5">
      <legend className="mb-1 font-medium">
        {legend} <span className="font-normal text-faint">optional</span>
      </legend>
      {rows.map((row, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: rows have no name of their own
        <div key={at} className="flex min-w-0 items-center gap-1.5">
          {columns.map((column) =>
            column.choices ? (
              <Select
                key={column.name}
                aria-label={`${column.label} of ${item} ${at + 1}`}
                value={textOf(row[column.name])}
                onChange={(event) => set(at, column, event.target.value)}
              >
                <option value="">{column.label}: any</option>
                {column.choices.map((choice) => (
                  <option key={choice}>{choice}</option>
                ))}
              </Select>
            ) : (
              <Input
                key={column.name}
                mono
                aria-label={columns.length === 1 ? `${item} ${at + 1}` : `${column.label} of ${item} ${at + 1}`}
                placeholder={column.placeholder ?? column.label}
                value={textOf(row[column.name])}
                onChange={(event) => set(at, column, event.target.value)}
              />
            ),
          )}
          <IconButton label={`Remove ${item} ${at + 1}`} onClick={() => onChange(rows.filter((_, i) => i !== at))}>
            <X aria-hidden className="size-3.5" />
          </IconButton>
        </div>
      ))}
      <div>
        <Button small icon={<Plus aria-hidden className="size-3" />} onClick={() => onChange([...rows, blank])}>
          Add {item}
        </Button>
      </div>
      <p className="text-xs text-muted">{hint}</p>
      {error && (
        <p role="alert" className="text-xs text-bad">
          {error}
        </p>
      )}
    </fieldset>
  );
}
