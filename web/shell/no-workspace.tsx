import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { clientFor } from "../api/client.ts";
import type { Me } from "../api/session.ts";
import { Button } from "../ui/button.tsx";
import { Field, Input } from "../ui/field.tsx";
import { ErrorState } from "../ui/states.tsx";

/** Somebody is signed in and is in no workspace: an operator makes one, anyone else asks for membership. */
export function NoWorkspace({ me }: { me: Me }) {
  const queries = useQueryClient();
  const [id, setId] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const create = async () => {
    setBusy(true);
    setError(null);
    try {
      await clientFor(undefined).call("create_workspace", { body: { id, name: id } });
      await queries.invalidateQueries({ queryKey: ["me"] });
    } catch (problem) {
      setError(problem);
    } finally {
      setBusy(false);
    }
  };
  return (
    <main className="mx-auto flex max-w-md flex-col gap-3 p-8">
      <h1 className="text-xl font-semibold">No workspace yet</h1>
      <p className="text-muted">
        You are signed in as <code>{me.subject}</code>.{" "}
        {me.operator
          ? "Create the first workspace; you become its admin."
          : "Ask an admin of a workspace to add you as a member, by exactly this name."}
      </p>
      {me.operator && (
        <form
          className="flex flex-col gap-3"
          onSubmit={(event) => {
            event.preventDefault();
            void create();
          }}
        >
          <Field label="Workspace id" hint="Lower-case letters, digits and single hyphens.">
            {(control) => <Input {...control} value={id} onChange={(event) => setId(event.target.value)} mono />}
          </Field>
          {error !== null && <ErrorState error={error} />}
          <div>
            <Button kind="primary" type="submit" busy={busy} disabledReason={id === "" ? "name it first" : undefined}>
              Create workspace
            </Button>
          </div>
        </form>
      )}
    </main>
  );
}
