import { AlertDialog } from "@base-ui/react/alert-dialog";
import { Dialog } from "@base-ui/react/dialog";
import { X } from "lucide-react";
import { type ReactNode, useRef, useState } from "react";
import { Button } from "./button.tsx";
import { cx } from "./class.ts";
import { ErrorState } from "./states.tsx";

const BACKDROP =
  "fixed inset-0 z-40 bg-black/40 transition-opacity duration-150 data-ending-style:opacity-0 data-starting-style:opacity-0";
const POPUP =
  "fixed top-[12vh] left-1/2 z-50 flex max-h-[76dvh] w-[calc(100vw-2rem)] -translate-x-1/2 flex-col rounded-lg border border-line bg-surface shadow-float outline-none transition-[opacity,scale] duration-150 data-ending-style:scale-98 data-ending-style:opacity-0 data-starting-style:scale-98 data-starting-style:opacity-0";

/** A dialog that somebody opens to do one thing; focus goes back to where it was. */
export function Modal({
  open,
  onClose,
  title,
  children,
  footer,
  wide = false,
}: {
  open: boolean;
  onClose: () => void;
  title: string;
  children: ReactNode;
  footer?: ReactNode;
  wide?: boolean;
}) {
  const body = useRef<HTMLDivElement>(null);
  return (
    <Dialog.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className={BACKDROP} />
        <Dialog.Popup
          // What is to be typed comes first, not the button that closes; a finger's keyboard would cover the dialog.
          initialFocus={(by) =>
            by === "touch" || (body.current?.querySelector<HTMLElement>("input, select, textarea") ?? true)
          }
          className={cx(POPUP, wide ? "max-w-2xl" : "max-w-md")}
        >
          <div className="flex h-11 shrink-0 items-center justify-between border-b border-line pr-2 pl-4">
            <Dialog.Title title={title} className="min-w-0 truncate font-semibold">
              {title}
            </Dialog.Title>
            <Dialog.Close
              aria-label="Close"
              className="inline-flex size-7 shrink-0 items-center justify-center rounded text-faint hover:bg-hover hover:text-ink"
            >
              <X aria-hidden className="size-4" />
            </Dialog.Close>
          </div>
          <div ref={body} className="min-h-0 overflow-auto p-4">
            {children}
          </div>
          {footer && <div className="flex shrink-0 justify-end gap-2 border-t border-line px-4 py-3">{footer}</div>}
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

export interface Confirmation {
  title: string;
  /** The thing, by name: repeated so that nobody ends the wrong one. */
  name: string;
  /** What happens, also to what depends on it. */
  consequences: ReactNode;
  /** What the button says: the deed, not "OK". */
  verb: string;
  /** The name must be typed. For what cannot be undone. */
  typeName?: boolean;
  action: () => Promise<unknown>;
}

/** Asks before something is destroyed. What went wrong is shown in it, and it stays open. */
export function Confirm({ ask, onClose }: { ask: Confirmation | null; onClose: () => void }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [typed, setTyped] = useState("");
  // The last question stays on screen while the dialog fades.
  const [last, setLast] = useState<Confirmation | null>(null);
  if (ask !== null && ask !== last) setLast(ask);
  const close = () => {
    if (busy) return;
    setError(null);
    setTyped("");
    onClose();
  };
  const act = async () => {
    if (!ask) return;
    setBusy(true);
    setError(null);
    try {
      await ask.action();
      setTyped("");
      onClose();
    } catch (problem) {
      setError(problem);
    } finally {
      setBusy(false);
    }
  };
  const blocked = last?.typeName && typed !== last.name ? `type ${last.name} first` : undefined;
  return (
    <AlertDialog.Root open={ask !== null} onOpenChange={(next) => !next && close()}>
      <AlertDialog.Portal>
        <AlertDialog.Backdrop className={BACKDROP} />
        <AlertDialog.Popup className={cx(POPUP, "max-w-md")}>
          <div className="flex min-h-0 flex-col gap-3 overflow-auto p-4">
            <AlertDialog.Title className="text-base font-semibold">{last?.title}</AlertDialog.Title>
            <code className="rounded border border-line bg-sunken px-2 py-1.5 break-all">{last?.name}</code>
            <AlertDialog.Description render={<div />} className="text-muted">
              {last?.consequences}
            </AlertDialog.Description>
            {last?.typeName && (
              <label className="flex flex-col gap-1 text-muted">
                Type the name to go on
                <input
                  value={typed}
                  onChange={(event) => setTyped(event.target.value)}
                  autoComplete="off"
                  spellCheck={false}
                  className="h-8 rounded-md border border-line-strong bg-surface px-2 font-mono text-ink"
                />
              </label>
            )}
            {error !== null && <ErrorState error={error} />}
          </div>
          <div className="flex shrink-0 justify-end gap-2 border-t border-line px-4 py-3">
            <AlertDialog.Close render={<Button>Leave it</Button>} />
            <Button kind="danger" busy={busy} disabledReason={blocked} onClick={() => void act()}>
              {last?.verb}
            </Button>
          </div>
        </AlertDialog.Popup>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  );
}
