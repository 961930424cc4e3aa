import { troubleOf } from "../api/errors.ts";

/** Toasts come with their own chunk: nobody needs them for the first paint. */
const toasts = () => import("sonner").then(({ toast }) => toast);

export function notify(message: string, options: { detail?: string; undo?: () => void } = {}): void {
  void toasts().then((toast) =>
    toast.success(message, {
      ...(options.detail === undefined ? {} : { description: options.detail }),
      ...(options.undo === undefined ? {} : { action: { label: "Undo", onClick: options.undo } }),
    }),
  );
}

/** What a request said when it failed, with the id a report must quote. */
export function notifyError(error: unknown): void {
  const { title, detail, requestId } = troubleOf(error);
  void toasts().then((toast) =>
    toast.error(title, {
      description: detail,
      duration: 12_000,
      ...(requestId === null
        ? {}
        : { action: { label: "Copy request id", onClick: () => void navigator.clipboard.writeText(requestId) } }),
    }),
  );
}
