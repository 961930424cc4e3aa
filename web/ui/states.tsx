import { CircleAlert, RotateCw } from "lucide-react";
import type { ReactNode } from "react";
import { troubleOf } from "../api/errors.ts";
import { Button } from "./button.tsx";
import { cx } from "./class.ts";
import { CopyButton } from "./copy.tsx";

/** What stands where a list has nothing: what this is, and the next step. */
export function Empty({
  icon,
  title,
  children,
  action,
}: {
  icon?: ReactNode;
  title: string;
  children?: ReactNode;
  action?: ReactNode;
}) {
  return (
    <div className="flex flex-col items-center gap-2 px-4 py-12 text-center">
      {icon && <div className="text-faint [&_svg]:size-6">{icon}</div>}
      <p className="font-medium">{title}</p>
      {children && <div className="max-w-md text-muted">{children}</div>}
      {action && <div className="mt-2 flex flex-wrap justify-center gap-2">{action}</div>}
    </div>
  );
}

/** What stands where something could not be read. What was typed elsewhere stays. */
export function ErrorState({ error, retry, className }: { error: unknown; retry?: () => void; className?: string }) {
  const { title, detail, code, requestId } = troubleOf(error);
  return (
    <div
      role="alert"
      className={cx("flex gap-2.5 rounded-md border border-line bg-bad-soft p-3 max-sm:flex-wrap", className)}
    >
      <CircleAlert aria-hidden className="mt-0.5 size-4 shrink-0 text-bad" />
      <div className="min-w-0 flex-1 max-sm:basis-3/4">
        <p className="font-medium text-bad">{title}</p>
        <p className="mt-0.5 text-ink wrap-anywhere">{detail}</p>
        <p className="mt-1 flex flex-wrap items-center gap-x-2 text-xs text-muted">
          <code>{code}</code>
          {requestId !== null && (
            <span className="inline-flex min-w-0 items-center gap-1">
              request <code className="truncate">{requestId}</code>
              <CopyButton text={requestId} label="Copy request id" />
            </span>
          )}
        </p>
      </div>
      {retry && (
        <Button small className="max-sm:ml-6.5" onClick={retry} icon={<RotateCw aria-hidden className="size-3" />}>
          Try again
        </Button>
      )}
    </div>
  );
}

/** A place held for something that is being read. */
export function Skeleton({ className }: { className?: string }) {
  return <span aria-hidden className={cx("pulse block rounded bg-idle-soft", className)} />;
}
