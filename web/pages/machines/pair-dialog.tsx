import { CircleCheck, Loader } from "lucide-react";
import { type ReactNode, useState } from "react";
import { Button } from "../../ui/button.tsx";
import { CopyButton } from "../../ui/copy.tsx";
import { Modal } from "../../ui/dialog.tsx";
import { Field, Input } from "../../ui/field.tsx";
import { ErrorState } from "../../ui/states.tsx";

export interface Paired {
  id: string;
  label: string;
  token: string | null;
  command: string;
}

/** Pairs a machine in three steps on one screen: name it, run one command on it, see it connect. */
export function PairDialog({
  what,
  hint,
  open,
  onClose,
  pair,
  beside,
  onlineNow,
  connected,
}: {
  /** "machine" or "relay". */
  what: string;
  hint: string;
  open: boolean;
  onClose: () => void;
  pair: (label: string) => Promise<Paired>;
  /** What the command lacks, which only the machine's operator knows. */
  beside?: ReactNode;
  /** Whether the machine with this id is connected now. */
  onlineNow: (id: string) => boolean;
  /** What can be done next, once it is there. */
  connected?: (id: string) => ReactNode;
}) {
  const [label, setLabel] = useState("");
  const [made, setMade] = useState<Paired | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const close = () => {
    setLabel("");
    setMade(null);
    setError(null);
    onClose();
  };
  const go = async () => {
    setBusy(true);
    setError(null);
    try {
      setMade(await pair(label));
    } catch (problem) {
      setError(problem);
    } finally {
      setBusy(false);
    }
  };
  const online = made !== null && onlineNow(made.id);
  return (
    <Modal
      open={open}
      onClose={close}
      wide
      title={`Pair a ${what}`}
      footer={
        made === null ? (
          <>
            <Button onClick={close}>Leave it</Button>
            <Button
              kind="primary"
              busy={busy}
              disabledReason={label.trim() === "" ? "name it first" : undefined}
              onClick={() => void go()}
            >
              Pair
            </Button>
          </>
        ) : (
          <Button kind={online ? "primary" : "normal"} onClick={close}>
            {online ? "Done" : "Close; it may connect later"}
          </Button>
        )
      }
    >
      <div className="flex flex-col gap-4">
        <Field label="Label" hint={hint}>
          {(control) => (
            <Input
              {...control}
              value={made?.label ?? label}
              disabled={made !== null}
              placeholder="laptop"
              onChange={(event) => setLabel(event.target.value)}
              onKeyDown={(event) => {
                if (event.key === "Enter" && label.trim() !== "" && made === null) void go();
              }}
            />
          )}
        </Field>
        {error !== null && <ErrorState error={error} />}
        {made !== null && (
          <>
            <div className="flex flex-col gap-1">
              <p className="font-medium">Run this on the machine</p>
              <p className="text-xs text-muted">
                It holds the token, which is shown this once. Whoever has it can act as this {what} until you revoke it.
              </p>
              <div className="flex items-start gap-1 rounded-md border border-line bg-sunken p-2">
                <code tabIndex={0} className="min-w-0 flex-1 overflow-x-auto text-xs break-all" data-testid="command">
                  {made.command}
                </code>
                <CopyButton text={made.command} label="Copy the command" />
              </div>
              {beside && <p className="text-xs text-muted">{beside}</p>}
            </div>
            <p role="status" className="flex items-center gap-2">
              {online ? (
                <>
                  <CircleCheck aria-hidden className="size-4 text-ok" />
                  <span className="text-ok">{made.label} is connected.</span>
                  {connected?.(made.id)}
                </>
              ) : (
                <>
                  <Loader aria-hidden className="size-4 animate-spin text-info" />
                  <span className="text-muted">Waiting for your machine to connect</span>
                </>
              )}
            </p>
          </>
        )}
      </div>
    </Modal>
  );
}
