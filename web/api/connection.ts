import { useSyncExternalStore } from "react";

/** Whether the last word from the control plane was silence. */
let lost = false;
const listeners = new Set<() => void>();

export function setConnectionLost(value: boolean): void {
  if (lost === value) return;
  lost = value;
  for (const listener of listeners) listener();
}

/** Ends after so long, or as soon as the control plane is heard again. @param ms milliseconds */
export function pauseUntilHeard(ms: number): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      listeners.delete(look);
      resolve();
    };
    const look = () => {
      if (!lost) done();
    };
    const timer = setTimeout(done, ms);
    listeners.add(look);
  });
}

export const useConnectionLost = (): boolean =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => lost,
  );
