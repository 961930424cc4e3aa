import { useSyncExternalStore } from "react";

/** Whether the last word from the control plane was silence. */
let lost = false;
const listeners = new Set<() => void>();

export function setConnectionLost(value: boolean): void {
  if (lost === value) return;
  lost = value;
  for (const listener of listeners) listener();
}

export const useConnectionLost = (): boolean =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => lost,
  );
