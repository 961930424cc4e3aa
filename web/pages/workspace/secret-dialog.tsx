import { useState } from "react";
import { EverdictError } from "../../../contracts/errors.ts";
import { useWrite } from "../../api/queries.ts";
import { Button } from "../../ui/button.tsx";
import { Modal } from "../../ui/dialog.tsx";
import { Field, Input, Select, TextArea } from "../../ui/field.tsx";
import { notify } from "../../ui/notify.ts";
import { ErrorState } from "../../ui/states.tsx";

type Use = "job" | "cluster" | "registry";

const USES: Record<Use, string> = {
  job: "job: injected into jobs that name it",
  cluster: "cluster: sent to the hosts below only",
  registry: "registry: image pulls from the hosts below",
};

const FORM = "secret-form";

/** Stores a secret, or a new value for one. The value goes one way: it is never shown again. */
export function SecretDialog({
  open,
  onClose,
  name: given,
  use: givenUse = "job",
  hosts: givenHosts = [],
  rotating = false,
}: {
  open: boolean;
  onClose: () => void;
  name?: string;
  use?: Use;
  hosts?: readonly string[];
  rotating?: boolean;
}) {
  const [name, setName] = useState(given ?? "");
  const [value, setValue] = useState("");
  const [use, setUse] = useState<Use>(givenUse);
  const [hosts, setHosts] = useState(givenHosts.join("\n"));
  const put = useWrite("put_secret", { quiet: true, refreshes: ["list_secrets", "list_secret_names"] });
  const store = async () => {
    const listed = hosts.split(/[\s,]+/).filter(Boolean);
    await put.mutateAsync({
      params: { name },
      body: { value, use, ...(use === "job" ? {} : { hosts: listed }) },
    });
    notify(rotating ? `${name} has a new value` : `${name} is stored`, { detail: "It counts from the next dispatch." });
    setValue("");
    onClose();
  };
  const issue = (path: string): string | undefined =>
    put.error instanceof EverdictError ? put.error.issues?.find((item) => item.path === path)?.message : undefined;
  const lacking = name === "" ? "name it first" : value === "" ? "give its value first" : undefined;
  return (
    <Modal
      open={open}
      onClose={onClose}
      title={rotating ? `New value for ${given}` : "Store a secret"}
      footer={
        <>
          <Button onClick={onClose}>Leave it</Button>
          <Button kind="primary" type="submit" form={FORM} busy={put.isPending} disabledReason={lacking}>
            {rotating ? "Rotate" : "Store"}
          </Button>
        </>
      }
    >
      <form
        id={FORM}
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          // A form inside a form's page must not send that one too.
          event.stopPropagation();
          void store().catch(() => undefined);
        }}
      >
        {!rotating && (
          <Field label="Name" hint="Capital letters, digits and underscores." error={issue("name")}>
            {(control) => (
              <Input {...control} mono value={name} onChange={(event) => setName(event.target.value.toUpperCase())} />
            )}
          </Field>
        )}
        <Field
          label="Value"
          hint="At most 16 KiB. A registry secret is JSON with host, username and password."
          error={issue("value")}
        >
          {(control) => (
            <TextArea
              {...control}
              rows={4}
              autoComplete="off"
              value={value}
              onChange={(event) => setValue(event.target.value)}
            />
          )}
        </Field>
        <Field label="Use" hint="A secret of one use is refused for every other." error={issue("use")}>
          {(control) => (
            <Select {...control} value={use} onChange={(event) => setUse(event.target.value as Use)}>
              {(Object.keys(USES) as Use[]).map((each) => (
                <option key={each} value={each}>
                  {USES[each]}
                </option>
              ))}
            </Select>
          )}
        </Field>
        {use !== "job" && (
          <Field
            label="Hosts"
            hint="One a line; *.example.com and :port are allowed. It is sent nowhere else."
            error={issue("hosts") ?? issue("hosts.0")}
          >
            {(control) => (
              <TextArea {...control} rows={2} value={hosts} onChange={(event) => setHosts(event.target.value)} />
            )}
          </Field>
        )}
        {put.error !== null && <ErrorState error={put.error} />}
      </form>
    </Modal>
  );
}
